/* Attention without a softmax, scores times values, each head by itself. */
void f(const float Q[restrict H][M][K], const float P[restrict H][N][K], const float V[restrict H][N][L],
       float Y[restrict H][M][L])
{
    static float s[H][M][N];
#pragma scop
    for (int h = 0; h < H; h++)
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                s[h][i][j] = 0.0f;
                for (int k = 0; k < K; k++)
                    s[h][i][j] += Q[h][i][k] * P[h][j][k];
                s[h][i][j] = s[h][i][j] > 0.0f ? s[h][i][j] : 0.0f;
            }
    for (int h = 0; h < H; h++)
        for (int i = 0; i < M; i++)
            for (int l = 0; l < L; l++) {
                Y[h][i][l] = 0.0f;
                for (int j = 0; j < N; j++)
                    Y[h][i][l] += s[h][i][j] * V[h][j][l];
            }
#pragma endscop
}
