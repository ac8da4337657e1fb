/* Gradient magnitude of a grey image in bytes. */
#ifndef H
#define H 60
#endif
#ifndef W
#define W 64
#endif

void sobel(const unsigned char in[restrict H][W], unsigned char out[restrict H][W])
{
#pragma scop
    for (int y = 1; y < H - 1; y++)
        for (int x = 1; x < W - 1; x++) {
            int gx = in[y - 1][x + 1] + 2 * in[y][x + 1] + in[y + 1][x + 1] - in[y - 1][x - 1] - 2 * in[y][x - 1]
                     - in[y + 1][x - 1];
            int gy = in[y + 1][x - 1] + 2 * in[y + 1][x] + in[y + 1][x + 1] - in[y - 1][x - 1] - 2 * in[y - 1][x]
                     - in[y - 1][x + 1];
            int sum = (gx < 0 ? -gx : gx) + (gy < 0 ? -gy : gy);
            out[y][x] = sum > 255 ? 255 : sum;
        }
#pragma endscop
}
