/* y = alpha * A * x + beta * B * x. */
#ifndef N
#define N 300
#endif

void gesummv(double alpha, double beta, const double A[restrict N][N], const double B[restrict N][N],
             double tmp[restrict N], const double x[restrict N], double y[restrict N])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        tmp[i] = 0.0;
        y[i] = 0.0;
        for (int j = 0; j < N; j++) {
            tmp[i] = A[i][j] * x[j] + tmp[i];
            y[i] = B[i][j] * x[j] + y[i];
        }
        y[i] = alpha * tmp[i] + beta * y[i];
    }
#pragma endscop
}
