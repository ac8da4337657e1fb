/* y = A^T * (A * x). */
#ifndef M
#define M 300
#endif
#ifndef N
#define N 300
#endif

void atax(const double A[restrict M][N], const double x[restrict N], double y[restrict N], double tmp[restrict M])
{
#pragma scop
    for (int i = 0; i < N; i++)
        y[i] = 0;
    for (int i = 0; i < M; i++) {
        tmp[i] = 0.0;
        for (int j = 0; j < N; j++)
            tmp[i] += A[i][j] * x[j];
        for (int j = 0; j < N; j++)
            y[j] += A[i][j] * tmp[i];
    }
#pragma endscop
}
