/* One head of attention: scores, softmax over the keys, sum of the values. */
#include <math.h>

#ifndef S
#define S 60
#endif
#ifndef D
#define D 32
#endif

void attention(const float Q[restrict S][D], const float Km[restrict S][D], const float V[restrict S][D],
               float P[restrict S][S], float out[restrict S][D])
{
    const float scale = 0.125f;
#pragma scop
    for (int i = 0; i < S; i++)
        for (int j = 0; j < S; j++) {
            P[i][j] = 0.0f;
            for (int d = 0; d < D; d++)
                P[i][j] += Q[i][d] * Km[j][d];
            P[i][j] *= scale;
        }
    for (int i = 0; i < S; i++) {
        float most = P[i][0], sum = 0.0f;
        for (int j = 1; j < S; j++)
            most = fmaxf(most, P[i][j]);
        for (int j = 0; j < S; j++) {
            P[i][j] = expf(P[i][j] - most);
            sum += P[i][j];
        }
        for (int j = 0; j < S; j++)
            P[i][j] /= sum;
    }
    for (int i = 0; i < S; i++)
        for (int d = 0; d < D; d++) {
            out[i][d] = 0.0f;
            for (int j = 0; j < S; j++)
                out[i][d] += P[i][j] * V[j][d];
        }
#pragma endscop
}
