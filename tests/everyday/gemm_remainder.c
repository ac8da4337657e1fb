void gemm_remainder(const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s0, s1, s2, s3;
            int k;
            s0 = s1 = s2 = s3 = 0.0f;
            for (k = 0; k + 3 < K; k += 4) {
                s0 += A[i][k] * B[k][j];
                s1 += A[i][k + 1] * B[k + 1][j];
                s2 += A[i][k + 2] * B[k + 2][j];
                s3 += A[i][k + 3] * B[k + 3][j];
            }
            for (; k < K; k++)
                s0 += A[i][k] * B[k][j];
            C[i][j] = (s0 + s1) + (s2 + s3);
        }
}
