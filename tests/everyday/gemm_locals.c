void gemm_locals(const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float c = C[i][j];
            for (int k = 0; k < K; k++) {
                float a = A[i][k];
                float b = B[k][j];
                float p = a * b;
                c += p;
            }
            C[i][j] = c;
        }
}
