void gemm_leading_dimensions(int m, int n, int k, const float *restrict A, int lda, const float *restrict B, int ldb,
     float *restrict C, int ldc)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float s = 0.0f;
            for (int p = 0; p < k; p++)
                s += A[i * lda + p] * B[p * ldb + j];
            C[i * ldc + j] += s;
        }
}
