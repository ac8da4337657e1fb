void gemm_hoisted_alpha(float alpha, float beta, const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            C[i][j] *= beta;
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++) {
            const float temp = alpha * A[i][k];
            for (int j = 0; j < N; j++)
                C[i][j] += temp * B[k][j];
        }
}
