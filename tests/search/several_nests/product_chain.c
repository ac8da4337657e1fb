/* A product of three matrices, and of its result with a fourth. */
void f(const float A[restrict M][K], const float B[restrict K][N], const float C[restrict N][L],
       const float D[restrict L][K], float Y[restrict M][K])
{
    static float p[M][N], q[M][L];
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            p[i][j] = 0.0f;
            for (int k = 0; k < K; k++)
                p[i][j] += A[i][k] * B[k][j];
        }
    for (int i = 0; i < M; i++)
        for (int l = 0; l < L; l++) {
            q[i][l] = 0.0f;
            for (int j = 0; j < N; j++)
                q[i][l] += p[i][j] * C[j][l];
        }
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++) {
            Y[i][k] = 0.0f;
            for (int l = 0; l < L; l++)
                Y[i][k] += q[i][l] * D[l][k];
        }
#pragma endscop
}
