#include <stdint.h>
#define CHANNELS 3
#define DIV255(x) (((x) + 128 + (((x) + 128) >> 8)) >> 8)

void alpha_blend(int w, int h, uint8_t dst[h][w][CHANNELS], uint8_t src[h][w][CHANNELS], uint8_t alpha[h][w])
{
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++) {
            unsigned a = alpha[y][x];
            for (int c = 0; c < CHANNELS; c++)
                dst[y][x][c] = DIV255(a * src[y][x][c] + (255u - a) * dst[y][x][c]);
        }
    }
}
