#include <float.h>

/* Windows of 3 x 3 around each element, those outside of the image left out. */
void max_pool_padded(const float in[CH][H][W], float out[CH][H][W])
{
    for (int c = 0; c < CH; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                float most = -FLT_MAX;
                for (int i = -1; i <= 1; i++)
                    for (int j = -1; j <= 1; j++)
                        if (y + i >= 0 && y + i < H && x + j >= 0 && x + j < W)
                            most = in[c][y + i][x + j] > most ? in[c][y + i][x + j] : most;
                out[c][y][x] = most;
            }
}
