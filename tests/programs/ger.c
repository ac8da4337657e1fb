/* Rank-1 update. */
#ifndef M
#define M 300
#endif
#ifndef N
#define N 300
#endif

void ger(double alpha, const double x[restrict M], const double y[restrict N], double A[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            A[i][j] += alpha * x[i] * y[j];
#pragma endscop
}
