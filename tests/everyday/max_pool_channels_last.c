#include <math.h>

/* Windows of 3 x 3 at a stride of 2. */
void max_pool_channels_last(const float in[2 * H + 1][2 * W + 1][CH], float out[H][W][CH])
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < CH; c++) {
                float most = -INFINITY;
                for (int i = 0; i < 3; i++)
                    for (int j = 0; j < 3; j++)
                        if (in[2 * y + i][2 * x + j][c] > most)
                            most = in[2 * y + i][2 * x + j][c];
                out[y][x][c] = most;
            }
}
