/* Running sums of every column and of one vector. */
#ifndef M
#define M 100
#endif
#ifndef N
#define N 120
#endif

void prefix_sum(double A[restrict M][N], double v[restrict N])
{
#pragma scop
    for (int j = 0; j < N; j++)
        for (int i = 1; i < M; i++)
            A[i][j] += A[i - 1][j];
    for (int j = 1; j < N; j++)
        v[j] += v[j - 1];
#pragma endscop
}
