void gemm_transposed(const float A[M][K], const float B[N][K], float C[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0.0f;
            for (int k = 0; k < K; k++)
                s += A[i][k] * B[j][k];
            C[i][j] = s;
        }
}
