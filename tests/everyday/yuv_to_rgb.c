#include <stdint.h>

static inline uint8_t clamp_u8(int v)
{
    return v < 0 ? 0 : (v > 255 ? 255 : v);
}

/* Planar YUV 4:2:0 to interleaved RGB; every 2 x 2 block of pixels shares its chroma. */
void yuv_to_rgb(const uint8_t luma[H][W], const uint8_t cb[H / 2][W / 2], const uint8_t cr[H / 2][W / 2],
                uint8_t rgb[H][W][3])
{
    for (int row = 0; row < H; row++)
        for (int col = 0; col < W; col++) {
            int c = luma[row][col] - 16;
            int d = cb[row / 2][col / 2] - 128;
            int e = cr[row / 2][col / 2] - 128;
            rgb[row][col][0] = clamp_u8((298 * c + 409 * e + 128) >> 8);
            rgb[row][col][1] = clamp_u8((298 * c - 100 * d - 208 * e + 128) >> 8);
            rgb[row][col][2] = clamp_u8((298 * c + 516 * d + 128) >> 8);
        }
}
