void gemm_double_products(const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double s = 0;
            for (int k = 0; k < K; k++)
                s += A[i][k] * B[k][j];
            C[i][j] = s;
        }
}
