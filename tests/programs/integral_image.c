/* Sums over all upper left rectangles. */
#ifndef H
#define H 100
#endif
#ifndef W
#define W 110
#endif

void integral_image(const int in[restrict H][W], long sum[restrict H][W])
{
#pragma scop
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            sum[y][x] = in[y][x];
            if (x > 0)
                sum[y][x] += sum[y][x - 1];
            if (y > 0)
                sum[y][x] += sum[y - 1][x];
            if (x > 0 && y > 0)
                sum[y][x] -= sum[y - 1][x - 1];
        }
#pragma endscop
}
