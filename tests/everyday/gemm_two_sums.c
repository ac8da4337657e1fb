void gemm_two_sums(const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s0 = 0.0f, s1 = 0.0f;
            for (int k = 0; k < K; k += 2) {
                s0 += A[i][k] * B[k][j];
                s1 += A[i][k + 1] * B[k + 1][j];
            }
            C[i][j] = s0 + s1;
        }
}
