void gemm_unrolled(const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0.0f;
            for (int k = 0; k < K; k += 4)
                s += A[i][k] * B[k][j] + A[i][k + 1] * B[k + 1][j]
                   + A[i][k + 2] * B[k + 2][j] + A[i][k + 3] * B[k + 3][j];
            C[i][j] = s;
        }
}
