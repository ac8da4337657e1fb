/* C = alpha * A * A^T + beta * C, lower triangle. */
#ifndef N
#define N 120
#endif
#ifndef M
#define M 120
#endif

void syrk(double alpha, double beta, double C[restrict N][N], const double A[restrict N][M])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        for (int j = 0; j <= i; j++)
            C[i][j] *= beta;
        for (int k = 0; k < M; k++)
            for (int j = 0; j <= i; j++)
                C[i][j] += alpha * A[i][k] * A[j][k];
    }
#pragma endscop
}
