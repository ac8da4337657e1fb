/* Scaled dot-product attention as people write it: scores, softmax of each row, values. With CAUSAL, a query sees the
   keys up to its own; with MASK, a number is added to each score. */
#include <math.h>

void attention(float Q[restrict HEADS][S][D], float K[restrict HEADS][S][D], float V[restrict HEADS][S][D],
#ifdef MASK
               float mask[restrict S][S],
#endif
               float O[restrict HEADS][S][D])
{
    static float p[HEADS][S][S];
    const float scale = SCALE;
#pragma scop
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < S; i++)
            for (int j = 0; j < S; j++) {
                float s = 0.0f;
                for (int d = 0; d < D; d++)
                    s += Q[h][i][d] * K[h][j][d];
                p[h][i][j] = s;
            }
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < S; i++) {
            float most = -INFINITY;
            for (int j = 0; j < S; j++) {
#ifdef MASK
                p[h][i][j] = p[h][i][j] * scale + mask[i][j];
#else
                p[h][i][j] = p[h][i][j] * scale;
#endif
            }
            for (int j = 0; j < S; j++)
                most = p[h][i][j] > most ? p[h][i][j] : most;
            float sum = 0.0f;
            for (int j = 0; j < S; j++) {
                p[h][i][j] = expf(p[h][i][j] - most);
                sum += p[h][i][j];
            }
            for (int j = 0; j < S; j++)
                p[h][i][j] = p[h][i][j] / sum;
        }
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < S; i++)
            for (int d = 0; d < D; d++) {
                float s = 0.0f;
                for (int j = 0; j < S; j++)
                    s += p[h][i][j] * V[h][j][d];
                O[h][i][d] = s;
            }
#pragma endscop
}
