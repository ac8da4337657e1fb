/* Maximum and mean over windows that do not overlap. */
#include <math.h>

#ifndef C
#define C 8
#endif
#ifndef H
#define H 16
#endif
#ifndef W
#define W 18
#endif
#ifndef K
#define K 2
#endif

void pooling(const float in[restrict C][H * K][W * K], float most[restrict C][H][W], float mean[restrict C][H][W])
{
#pragma scop
    for (int c = 0; c < C; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                most[c][y][x] = in[c][y * K][x * K];
                mean[c][y][x] = 0.0f;
                for (int p = 0; p < K; p++)
                    for (int q = 0; q < K; q++) {
                        most[c][y][x] = fmaxf(most[c][y][x], in[c][y * K + p][x * K + q]);
                        mean[c][y][x] += in[c][y * K + p][x * K + q];
                    }
                mean[c][y][x] /= K * K;
            }
#pragma endscop
}
