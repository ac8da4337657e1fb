void gemm_alpha_beta(float alpha, float beta, const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0.0f;
            for (int k = 0; k < K; k++)
                s += A[i][k] * B[k][j];
            C[i][j] = alpha * s + beta * C[i][j];
        }
}
