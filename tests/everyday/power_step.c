#include <math.h>

/* A step of the power method: y = A x, x = y / |y|. */
void power_step(const double A[N][N], double x[N], double y[N])
{
    double norm = 0.0;
    for (int i = 0; i < N; i++) {
        y[i] = 0.0;
        for (int j = 0; j < N; j++)
            y[i] += A[i][j] * x[j];
    }
    for (int i = 0; i < N; i++)
        norm += y[i] * y[i];
    for (int i = 0; i < N; i++)
        x[i] = y[i] / sqrt(norm);
}
