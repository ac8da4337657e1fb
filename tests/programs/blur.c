/* Separable 5-point blur in two stages. */
#ifndef H
#define H 60
#endif
#ifndef W
#define W 64
#endif

void blur(const float in[restrict H][W], float tmp[restrict H][W], float out[restrict H][W])
{
#pragma scop
#pragma polydl dead(tmp)
    for (int y = 0; y < H; y++)
        for (int x = 2; x < W - 2; x++)
            tmp[y][x] = 0.0625f * in[y][x - 2] + 0.25f * in[y][x - 1] + 0.375f * in[y][x] + 0.25f * in[y][x + 1]
                        + 0.0625f * in[y][x + 2];
    for (int y = 2; y < H - 2; y++)
        for (int x = 2; x < W - 2; x++)
            out[y][x] = 0.0625f * tmp[y - 2][x] + 0.25f * tmp[y - 1][x] + 0.375f * tmp[y][x] + 0.25f * tmp[y + 1][x]
                        + 0.0625f * tmp[y + 2][x];
#pragma endscop
}
