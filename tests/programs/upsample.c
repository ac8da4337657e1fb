/* Bilinear magnification by two: floor and remainder of the coordinates. */
#ifndef H
#define H 30
#endif
#ifndef W
#define W 32
#endif

void upsample(const float in[restrict H + 1][W + 1], float out[restrict 2 * H][2 * W])
{
#pragma scop
    for (int y = 0; y < 2 * H; y++)
        for (int x = 0; x < 2 * W; x++) {
            if (y % 2 == 0 && x % 2 == 0)
                out[y][x] = in[y / 2][x / 2];
            else if (y % 2 == 0)
                out[y][x] = 0.5f * (in[y / 2][x / 2] + in[y / 2][x / 2 + 1]);
            else if (x % 2 == 0)
                out[y][x] = 0.5f * (in[y / 2][x / 2] + in[y / 2 + 1][x / 2]);
            else
                out[y][x] = 0.25f * (in[y / 2][x / 2] + in[y / 2][x / 2 + 1] + in[y / 2 + 1][x / 2]
                                     + in[y / 2 + 1][x / 2 + 1]);
        }
#pragma endscop
}
