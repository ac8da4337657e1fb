void gemm_hoisted(const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++) {
            float a = A[i][k];
            for (int j = 0; j < N; j++)
                C[i][j] += a * B[k][j];
        }
}
