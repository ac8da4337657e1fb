/* Harris corner response. */
#ifndef H
#define H 50
#endif
#ifndef W
#define W 54
#endif

void harris(const float in[restrict H][W], float Ixx[restrict H][W], float Iyy[restrict H][W], float Ixy[restrict H][W],
            float out[restrict H][W])
{
#pragma scop
#pragma polydl live_out(out)
    for (int y = 1; y < H - 1; y++)
        for (int x = 1; x < W - 1; x++) {
            float gx = (in[y - 1][x + 1] - in[y - 1][x - 1] + 2 * (in[y][x + 1] - in[y][x - 1]) + in[y + 1][x + 1]
                        - in[y + 1][x - 1]) / 12;
            float gy = (in[y + 1][x - 1] - in[y - 1][x - 1] + 2 * (in[y + 1][x] - in[y - 1][x]) + in[y + 1][x + 1]
                        - in[y - 1][x + 1]) / 12;
            Ixx[y][x] = gx * gx;
            Iyy[y][x] = gy * gy;
            Ixy[y][x] = gx * gy;
        }
    for (int y = 2; y < H - 2; y++)
        for (int x = 2; x < W - 2; x++) {
            float sxx = 0, syy = 0, sxy = 0;
            for (int dy = -1; dy <= 1; dy++)
                for (int dx = -1; dx <= 1; dx++) {
                    sxx += Ixx[y + dy][x + dx];
                    syy += Iyy[y + dy][x + dx];
                    sxy += Ixy[y + dy][x + dx];
                }
            out[y][x] = sxx * syy - sxy * sxy - 0.04f * (sxx + syy) * (sxx + syy);
        }
#pragma endscop
}
