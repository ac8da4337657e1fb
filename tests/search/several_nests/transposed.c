/* A product, and one of its result transposed: columns of the first are rows of the second. */
void f(const float A[restrict M][K], const float B[restrict K][N], const float C[restrict M][L],
       float Y[restrict N][L])
{
    static float p[M][N];
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            p[i][j] = 0.0f;
            for (int k = 0; k < K; k++)
                p[i][j] += A[i][k] * B[k][j];
        }
    for (int j = 0; j < N; j++)
        for (int l = 0; l < L; l++) {
            Y[j][l] = 0.0f;
            for (int i = 0; i < M; i++)
                Y[j][l] += p[i][j] * C[i][l];
        }
#pragma endscop
}
