typedef unsigned char u8;
static inline int clampi(int v, int lo, int hi) { if (v < lo) return lo; if (v > hi) return hi; return v; }

void box_clamped_flat(int w, int h, const u8 *src, u8 *dst)
{
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            int sum = 0;
            for (int dy = -2; dy <= 2; dy++)
                for (int dx = -2; dx <= 2; dx++)
                    sum += src[clampi(y + dy, 0, h - 1) * w + clampi(x + dx, 0, w - 1)];
            dst[y * w + x] = (u8)(sum / 25);
        }
}
