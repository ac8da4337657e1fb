#include <stddef.h>

#ifndef R
#define R 2
#endif

void box_filter_vla(size_t h, size_t w, double in[h][w], double out[h][w])
{
    const double area = (2.0 * R + 1.0) * (2.0 * R + 1.0);
    for (size_t y = R; y + R < h; ++y)
        for (size_t x = R; x + R < w; ++x) {
            double sum = 0.0;
            for (size_t dy = 0; dy <= 2 * R; ++dy)
                for (size_t dx = 0; dx <= 2 * R; ++dx)
                    sum += in[y + dy - R][x + dx - R];
            out[y][x] = sum / area;
        }
}
