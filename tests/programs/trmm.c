/* B = alpha * A^T * B, A unit lower triangular. */
#ifndef M
#define M 120
#endif
#ifndef N
#define N 120
#endif

void trmm(double alpha, const double A[restrict M][M], double B[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            for (int k = i + 1; k < M; k++)
                B[i][j] += A[k][i] * B[k][j];
            B[i][j] = alpha * B[i][j];
        }
#pragma endscop
}
