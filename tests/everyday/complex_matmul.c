#include <complex.h>

/* A product of matrices of complex numbers, the second one conjugated. */
void complex_matmul(int n, double complex C[n][n], const double complex A[n][n], const double complex B[n][n])
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double complex s = 0.0;
            for (int k = 0; k < n; k++)
                s += A[i][k] * conj(B[k][j]);
            C[i][j] = s;
        }
}
