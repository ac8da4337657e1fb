void gemm_row_pointers(const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int i = 0; i < M; i++) {
        const float *a = &A[i][0];
        float *c = C[i];
        for (int k = 0; k < K; k++) {
            const float *b = B[k];
            for (int j = 0; j < N; j++)
                c[j] += a[k] * b[j];
        }
    }
}
