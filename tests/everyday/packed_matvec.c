#include <stddef.h>
/* y = A x, the upper triangle of a symmetric A packed row by row (BLAS' spmv): both halves in one pass. */
void packed_matvec(size_t n, const float *restrict ap, const float *restrict x, float *restrict y)
{
    for (size_t i = 0; i < n; i++)
        y[i] = 0;
    for (size_t i = 0; i < n; i++) {
        float s = ap[i * (2 * n - i + 1) / 2] * x[i];
        for (size_t j = i + 1; j < n; j++) {
            float a = ap[j - i + i * (2 * n - i + 1) / 2];
            s += a * x[j];
            y[j] += a * x[i];
        }
        y[i] += s;
    }
}
