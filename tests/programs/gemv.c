/* y = alpha * A * x + beta * y. */
#ifndef M
#define M 300
#endif
#ifndef N
#define N 300
#endif

void gemv(double alpha, double beta, const double A[restrict M][N], const double x[restrict N], double y[restrict M])
{
#pragma scop
    for (int i = 0; i < M; i++) {
        double sum = 0.0;
        for (int j = 0; j < N; j++)
            sum += A[i][j] * x[j];
        y[i] = alpha * sum + beta * y[i];
    }
#pragma endscop
}
