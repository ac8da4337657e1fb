#include <math.h>
#include <stdint.h>

/* A convolution of an image of bytes, channels last, whose zero point is not zero; a scale for each channel. */
void quantised_conv(const uint8_t in[restrict H + 2][W + 2][C], const int8_t weights[restrict 3][3][C][F],
                    const int32_t bias[restrict F], const float scale[restrict F], int32_t zero_point,
                    int8_t out[restrict H][W][F])
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int f = 0; f < F; f++) {
                int32_t sum = bias[f];
                for (int dy = 0; dy < 3; dy++)
                    for (int dx = 0; dx < 3; dx++)
                        for (int c = 0; c < C; c++)
                            sum += (in[y + dy][x + dx][c] - zero_point) * weights[dy][dx][c][f];
                float v = roundf((float)sum * scale[f]);
                v = fminf(fmaxf(v, -128.0f), 127.0f);
                out[y][x][f] = (int8_t)v;
            }
}
