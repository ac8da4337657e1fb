/* Horner's rule for many points, and the product of two polynomials. */
#ifndef N
#define N 100
#endif
#ifndef D
#define D 60
#endif

void polynomials(const double c[restrict D], const double x[restrict N], double y[restrict N], const double d[restrict D],
                 double product[restrict 2 * D - 1])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        y[i] = c[D - 1];
        for (int k = D - 2; k >= 0; k--)
            y[i] = y[i] * x[i] + c[k];
    }
    for (int k = 0; k < 2 * D - 1; k++)
        product[k] = 0;
    for (int i = 0; i < D; i++)
        for (int j = 0; j < D; j++)
            product[i + j] += c[i] * d[j];
#pragma endscop
}
