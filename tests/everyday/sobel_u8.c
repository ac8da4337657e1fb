#include <stdint.h>
#include <stdlib.h>

/* Gradient magnitude of an 8-bit image, |gx| + |gy|, saturated; the frame of one pixel is left alone. */
void sobel_u8(const uint8_t *restrict src, uint8_t *restrict dst, int width, int height)
{
    for (int y = 1; y < height - 1; y++) {
        for (int x = 1; x < width - 1; x++) {
            int gx = -src[(y - 1) * width + x - 1] + src[(y - 1) * width + x + 1]
                   - 2 * src[y * width + x - 1] + 2 * src[y * width + x + 1]
                   - src[(y + 1) * width + x - 1] + src[(y + 1) * width + x + 1];
            int gy = -src[(y - 1) * width + x - 1] - 2 * src[(y - 1) * width + x] - src[(y - 1) * width + x + 1]
                   + src[(y + 1) * width + x - 1] + 2 * src[(y + 1) * width + x] + src[(y + 1) * width + x + 1];
            int mag = (gx < 0 ? -gx : gx) + (gy < 0 ? -gy : gy);
            dst[y * width + x] = mag > 255 ? 255 : mag;
        }
    }
}
