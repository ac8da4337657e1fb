void gemm_row_pairs(const float A[M][K], const float B[K][N], float C[M][N])
{
    int i;
    for (i = 0; i < M - 1; i += 2) {
        for (int j = 0; j < N; j++)
            C[i][j] = C[i + 1][j] = 0.0f;
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++) {
                C[i][j] += A[i][k] * B[k][j];
                C[i + 1][j] += A[i + 1][k] * B[k][j];
            }
    }
    for (; i < M; i++) {
        for (int j = 0; j < N; j++)
            C[i][j] = 0.0f;
        for (int k = 0; k < K; k++)
            for (int j = 0; j < N; j++)
                C[i][j] += A[i][k] * B[k][j];
    }
}
