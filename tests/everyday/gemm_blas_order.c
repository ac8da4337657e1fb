void gemm_blas_order(float alpha, float beta, const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++)
                sum += A[i][k] * B[k][j];
            C[i][j] = beta * C[i][j] + alpha * sum;
        }
}
