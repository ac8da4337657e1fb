void gemm_blocked_by_hand(const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int i = 0; i < M; i += 2)
        for (int j = 0; j < N; j += 2) {
            float c00 = 0.0f, c01 = 0.0f, c10 = 0.0f, c11 = 0.0f;
            for (int k = 0; k < K; k++) {
                const float a0 = A[i][k], a1 = A[i + 1][k];
                const float b0 = B[k][j], b1 = B[k][j + 1];
                c00 += a0 * b0;
                c01 += a0 * b1;
                c10 += a1 * b0;
                c11 += a1 * b1;
            }
            C[i][j] = c00;
            C[i][j + 1] = c01;
            C[i + 1][j] = c10;
            C[i + 1][j + 1] = c11;
        }
}
