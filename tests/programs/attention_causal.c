/* Attention in which a position sees itself and what is before. */
#include <math.h>

#ifndef S
#define S 60
#endif
#ifndef D
#define D 32
#endif

void attention_causal(const float Q[restrict S][D], const float Km[restrict S][D], const float V[restrict S][D],
                      float out[restrict S][D])
{
    float p[S];
#pragma scop
    for (int i = 0; i < S; i++) {
        float sum = 0.0f;
        for (int j = 0; j <= i; j++) {
            float s = 0.0f;
            for (int d = 0; d < D; d++)
                s += Q[i][d] * Km[j][d];
            p[j] = expf(0.125f * s);
            sum += p[j];
        }
        for (int d = 0; d < D; d++)
            out[i][d] = 0.0f;
        for (int j = 0; j <= i; j++)
            for (int d = 0; d < D; d++)
                out[i][d] += p[j] / sum * V[j][d];
    }
#pragma endscop
}
