/* C = alpha * A * B + beta * C, A symmetric in its lower triangle. */
#ifndef M
#define M 120
#endif
#ifndef N
#define N 120
#endif

void symm(double alpha, double beta, double C[restrict M][N], const double A[restrict M][M], const double B[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int k = 0; k < i; k++) {
                C[k][j] += alpha * B[i][j] * A[i][k];
                sum += B[k][j] * A[i][k];
            }
            C[i][j] = beta * C[i][j] + alpha * B[i][j] * A[i][i] + alpha * sum;
        }
#pragma endscop
}
