#include <math.h>

void max_pool(const float in[C][2 * H][2 * W], float out[C][H][W])
{
    for (int c = 0; c < C; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                out[c][y][x] = fmaxf(fmaxf(in[c][2 * y][2 * x], in[c][2 * y][2 * x + 1]),
                                     fmaxf(in[c][2 * y + 1][2 * x], in[c][2 * y + 1][2 * x + 1]));
}
