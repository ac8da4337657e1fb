#include <math.h>

void gemm_blas_by_hand(int m, int n, int k, float alpha, const float *restrict A, int lda, const float *restrict B,
     int ldb, float beta, float *restrict C, int ldc)
{
    for (int i = 0; i < m; i++) {
        const float *a = A + i * lda;
        float *c = C + i * ldc;
        for (int j = n - 1; j >= 0; j--) {
            float s0 = 0.0f, s1 = 0.0f;
            int p;
            for (p = 0; p + 1 < k; p += 2) {
                s0 = fmaf(a[p], B[p * ldb + j], s0);
                s1 -= a[p + 1] * B[(p + 1) * ldb + j];
            }
            for (; p < k; p++)
                s0 += a[p] * B[p * ldb + j];
            c[j] = alpha * (s0 - s1) + beta * c[j];
        }
    }
}
