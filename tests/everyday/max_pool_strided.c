#include <float.h>

/* Windows of 3 x 3 at a stride of 2 in an image with a border of one element, as in residual networks. */
void max_pool_strided(const float in[CH][2 * H][2 * W], float out[CH][H][W])
{
    for (int c = 0; c < CH; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                float most = -FLT_MAX;
                for (int i = 0; i < 3; i++)
                    for (int j = 0; j < 3; j++) {
                        int iy = 2 * y + i - 1, ix = 2 * x + j - 1;
                        if (iy >= 0 && iy < 2 * H && ix >= 0 && ix < 2 * W && in[c][iy][ix] > most)
                            most = in[c][iy][ix];
                    }
                out[c][y][x] = most;
            }
}
