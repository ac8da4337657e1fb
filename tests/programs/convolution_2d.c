/* Filter of KxK taps on one image. */
#ifndef H
#define H 60
#endif
#ifndef W
#define W 64
#endif
#ifndef K
#define K 5
#endif

void convolution_2d(const float in[restrict H + K - 1][W + K - 1], const float w[restrict K][K], float out[restrict H][W])
{
#pragma scop
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            out[y][x] = 0.0f;
            for (int p = 0; p < K; p++)
                for (int q = 0; q < K; q++)
                    out[y][x] += in[y + p][x + q] * w[p][q];
        }
#pragma endscop
}
