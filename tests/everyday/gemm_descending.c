void gemm_descending(const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int i = M - 1; i >= 0; i--)
        for (int j = N - 1; j >= 0; --j) {
            float s = 0;
            for (int k = K; k-- > 0;)
                s += A[i][k] * B[k][j];
            C[i][j] = s;
        }
}
