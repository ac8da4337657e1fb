/* Two levels of an image pyramid. */
#ifndef H
#define H 30
#endif
#ifndef W
#define W 32
#endif

void downsample(const float in[restrict 4 * H][4 * W], float half[restrict 2 * H][2 * W], float quarter[restrict H][W])
{
#pragma scop
    for (int y = 0; y < 2 * H; y++)
        for (int x = 0; x < 2 * W; x++)
            half[y][x] = 0.25f * (in[2 * y][2 * x] + in[2 * y][2 * x + 1] + in[2 * y + 1][2 * x] + in[2 * y + 1][2 * x + 1]);
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            quarter[y][x] = 0.25f * (half[2 * y][2 * x] + half[2 * y][2 * x + 1] + half[2 * y + 1][2 * x]
                                     + half[2 * y + 1][2 * x + 1]);
#pragma endscop
}
