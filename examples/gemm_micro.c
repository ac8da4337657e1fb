/* A microkernel in plain C: c[0..m)[0..n) += a[0..m)[0..k) * b[0..k)[0..n), row strides lda, ldb and ldc in elements.
   Compile it with cc -O3 -march=native -c gemm_micro.c and give it to polydl with --link gemm_micro.o. */
void gemm_micro(int m, int n, int k, const float *restrict a, int lda, const float *restrict b, int ldb,
                float *restrict c, int ldc)
{
    for (int i = 0; i < m; i++)
        for (int p = 0; p < k; p++)
            for (int j = 0; j < n; j++)
                c[i * ldc + j] += a[i * lda + p] * b[p * ldb + j];
}
