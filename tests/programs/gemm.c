/* C = alpha * A * B + beta * C. */
#ifndef M
#define M 120
#endif
#ifndef N
#define N 120
#endif
#ifndef K
#define K 120
#endif

void gemm(double alpha, double beta, double C[restrict M][N], const double A[restrict M][K], const double B[restrict K][N])
{
#pragma scop
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++)
            C[i][j] *= beta;
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                C[i][j] += alpha * A[i][k] * B[k][j];
    }
#pragma endscop
}
