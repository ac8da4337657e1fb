#define DEGREE 7

void horner_many(const double coeffs[DEGREE + 1], const double *x, double *y, long n)
{
    for (long i = 0; i < n; i++) {
        register double r = coeffs[DEGREE];
        for (int d = DEGREE - 1; d >= 0; d--)
            r = r * x[i] + coeffs[d];
        y[i] = r;
    }
}
