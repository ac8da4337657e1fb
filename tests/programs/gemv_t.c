/* y = A^T * x, written along the columns. */
#ifndef M
#define M 300
#endif
#ifndef N
#define N 300
#endif

void gemv_t(const double A[restrict M][N], const double x[restrict M], double y[restrict N])
{
#pragma scop
    for (int j = 0; j < N; j++) {
        y[j] = 0.0;
        for (int i = 0; i < M; i++)
            y[j] += A[i][j] * x[i];
    }
#pragma endscop
}
