/* y = A * x with the lower triangle of a symmetric A. */
#ifndef N
#define N 300
#endif

void symv(const double A[restrict N][N], const double x[restrict N], double y[restrict N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        y[i] = 0.0;
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < i; j++) {
            y[i] += A[i][j] * x[j];
            y[j] += A[i][j] * x[i];
        }
        y[i] += A[i][i] * x[i];
    }
#pragma endscop
}
