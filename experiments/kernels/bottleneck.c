/* A bottleneck of ResNet with its norms folded in: 1x1, 3x3 and 1x1 convolutions with biases and ReLUs, plus the
   input. P: pixels of a side; C channels outside, M inside. */
void bottleneck(const float X[restrict B][C][P][P], const float U[restrict M][C], const float u[restrict M],
                const float V[restrict M][M][3][3], const float v[restrict M], const float W[restrict C][M],
                const float w[restrict C], float Y[restrict B][C][P][P])
{
    static float a[B][M][P + 2][P + 2], c[B][M][P][P];
#pragma scop
    for (int n = 0; n < B; n++)
        for (int m = 0; m < M; m++)
            for (int y = 0; y < P + 2; y++)
                for (int x = 0; x < P + 2; x++)
                    a[n][m][y][x] = 0.0f;
    for (int n = 0; n < B; n++)
        for (int m = 0; m < M; m++)
            for (int y = 0; y < P; y++)
                for (int x = 0; x < P; x++) {
                    float s = u[m];
                    for (int k = 0; k < C; k++)
                        s += U[m][k] * X[n][k][y][x];
                    a[n][m][y + 1][x + 1] = s > 0.0f ? s : 0.0f;
                }
    for (int n = 0; n < B; n++)
        for (int m = 0; m < M; m++)
            for (int y = 0; y < P; y++)
                for (int x = 0; x < P; x++) {
                    float s = v[m];
                    for (int k = 0; k < M; k++)
                        for (int r = 0; r < 3; r++)
                            for (int q = 0; q < 3; q++)
                                s += V[m][k][r][q] * a[n][k][y + r][x + q];
                    c[n][m][y][x] = s > 0.0f ? s : 0.0f;
                }
    for (int n = 0; n < B; n++)
        for (int m = 0; m < C; m++)
            for (int y = 0; y < P; y++)
                for (int x = 0; x < P; x++) {
                    float s = w[m];
                    for (int k = 0; k < M; k++)
                        s += W[m][k] * c[n][k][y][x];
                    s += X[n][m][y][x];
                    Y[n][m][y][x] = s > 0.0f ? s : 0.0f;
                }
#pragma endscop
}
