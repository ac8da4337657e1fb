void gemm_chain(const float A[M][K], const float B[K][N], const float D[N][NP], float TMP[M][N], float E[M][NP])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            TMP[i][j] = 0.0f;
            for (int k = 0; k < K; k++)
                TMP[i][j] += A[i][k] * B[k][j];
        }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < NP; j++) {
            E[i][j] = 0.0f;
            for (int k = 0; k < N; k++)
                E[i][j] += TMP[i][k] * D[k][j];
        }
}
