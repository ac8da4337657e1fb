/* Unsharp mask: blur in two stages, difference, threshold, with local buffers. */
#include <math.h>

#ifndef C
#define C 3
#endif
#ifndef H
#define H 40
#endif
#ifndef W
#define W 44
#endif

void unsharp(const float in[restrict C][H][W], float out[restrict C][H][W], float weight, float threshold)
{
    static float bx[C][H][W], by[C][H][W];
#pragma scop
    for (int c = 0; c < C; c++)
        for (int y = 2; y < H - 2; y++)
            for (int x = 0; x < W; x++)
                bx[c][y][x] = (in[c][y - 2][x] + 4 * in[c][y - 1][x] + 6 * in[c][y][x] + 4 * in[c][y + 1][x]
                               + in[c][y + 2][x]) * 0.0625f;
    for (int c = 0; c < C; c++)
        for (int y = 2; y < H - 2; y++)
            for (int x = 2; x < W - 2; x++)
                by[c][y][x] = (bx[c][y][x - 2] + 4 * bx[c][y][x - 1] + 6 * bx[c][y][x] + 4 * bx[c][y][x + 1]
                               + bx[c][y][x + 2]) * 0.0625f;
    for (int c = 0; c < C; c++)
        for (int y = 2; y < H - 2; y++)
            for (int x = 2; x < W - 2; x++)
                out[c][y][x] = fabsf(in[c][y][x] - by[c][y][x]) < threshold
                                   ? in[c][y][x]
                                   : in[c][y][x] * (1 + weight) - by[c][y][x] * weight;
#pragma endscop
}
