void gemm_skips_zeros(const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++) {
            if (A[i][k] == 0.0f)
                continue;
            for (int j = 0; j < N; j++)
                C[i][j] += A[i][k] * B[k][j];
        }
}
