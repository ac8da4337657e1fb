/* Depthwise convolution, channels inside. */
#ifndef H
#define H 24
#endif
#ifndef W
#define W 24
#endif
#ifndef C
#define C 20
#endif
#ifndef K
#define K 3
#endif

void depthwise(const float in[restrict H + K - 1][W + K - 1][C], const float w[restrict K][K][C], float out[restrict H][W][C])
{
#pragma scop
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < C; c++) {
                float sum = 0.0f;
                for (int p = 0; p < K; p++)
                    for (int q = 0; q < K; q++)
                        sum += in[y + p][x + q][c] * w[p][q][c];
                out[y][x][c] = sum;
            }
#pragma endscop
}
