/* Green of a Bayer mosaic, loops of step two. */
#ifndef H
#define H 60
#endif
#ifndef W
#define W 64
#endif

void demosaic(const short raw[restrict H][W], short green[restrict H][W])
{
#pragma scop
    for (int y = 2; y < H - 2; y += 2)
        for (int x = 2; x < W - 2; x += 2) {
            green[y][x] = (raw[y - 1][x] + raw[y + 1][x] + raw[y][x - 1] + raw[y][x + 1]) / 4;
            green[y][x + 1] = raw[y][x + 1];
            green[y + 1][x] = raw[y + 1][x];
            green[y + 1][x + 1] = (raw[y][x + 1] + raw[y + 1][x] + raw[y + 1][x + 2] + raw[y + 2][x + 1]) / 4;
        }
#pragma endscop
}
