/* Attention with a running maximum (online softmax), as people write it: one pass over the keys for each query.

   T queries (default: as many as keys) see S keys. GROUP heads of queries share one of keys and values. With CAUSAL a
   query sees the keys up to its own, the loop ending there; with MASK a number is added to each score; with LENGTHS
   only so many keys of each head count, the others are minus infinity. */
#include <math.h>
#ifndef T
#define T S
#endif
#ifndef GROUP
#define GROUP 1
#endif
#ifdef CAUSAL
#define KEYS (i + S - T + 1)
#else
#define KEYS S
#endif

void attention(const float Q[restrict HEADS][T][D], const float K[restrict HEADS / GROUP][S][D],
               const float V[restrict HEADS / GROUP][S][D],
#ifdef MASK
               const float mask[restrict T][S],
#endif
#ifdef LENGTHS
               const int lengths[restrict HEADS],
#endif
               float O[restrict HEADS][T][D])
{
    const float scale = SCALE;
#pragma scop
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < T; i++) {
            float most = -INFINITY, sum = 0.0f;
            for (int d = 0; d < D; d++)
                O[h][i][d] = 0.0f;
            for (int j = 0; j < KEYS; j++) {
                float s = 0.0f;
                for (int d = 0; d < D; d++)
                    s += Q[h][i][d] * K[h / GROUP][j][d];
#ifdef MASK
                s = s * scale + mask[i][j];
#elif defined LENGTHS
                s = j < lengths[h] ? s * scale : -INFINITY;
#else
                s *= scale;
#endif
                float next = s > most ? s : most;
                float before = expf(most - next), now = expf(s - next);
                sum = sum * before + now;
                for (int d = 0; d < D; d++)
                    O[h][i][d] = O[h][i][d] * before + now * V[h / GROUP][j][d];
                most = next;
            }
            for (int d = 0; d < D; d++)
                O[h][i][d] = O[h][i][d] / sum;
        }
#pragma endscop
}
