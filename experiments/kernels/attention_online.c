/* Attention with a running maximum (online softmax), as people write it: one pass over the keys for each query. */
#include <math.h>

void attention(const float Q[restrict HEADS][S][D], const float K[restrict HEADS][S][D],
               const float V[restrict HEADS][S][D], float O[restrict HEADS][S][D])
{
    const float scale = SCALE;
#pragma scop
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < S; i++) {
            float most = -INFINITY, sum = 0.0f;
            for (int d = 0; d < D; d++)
                O[h][i][d] = 0.0f;
            for (int j = 0; j < S; j++) {
                float s = 0.0f;
                for (int d = 0; d < D; d++)
                    s += Q[h][i][d] * K[h][j][d];
                s *= scale;
                float next = s > most ? s : most;
                float before = expf(most - next), now = expf(s - next);
                sum = sum * before + now;
                for (int d = 0; d < D; d++)
                    O[h][i][d] = O[h][i][d] * before + now * V[h][j][d];
                most = next;
            }
            for (int d = 0; d < D; d++)
                O[h][i][d] = O[h][i][d] / sum;
        }
#pragma endscop
}
