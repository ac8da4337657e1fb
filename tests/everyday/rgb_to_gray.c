#include <stdint.h>

/* Interleaved RGB to luma, fixed point with 8 fractional bits (BT.601). */
void rgb_to_gray(uint8_t *restrict gray, const uint8_t *restrict rgb, int npixels)
{
    for (int i = 0; i < npixels; ++i) {
        const int r = rgb[3 * i + 0];
        const int g = rgb[3 * i + 1];
        const int b = rgb[3 * i + 2];
        gray[i] = (uint8_t)((77 * r + 150 * g + 29 * b) >> 8);
    }
}
