/* Scaled dot-product attention as people write it: scores, softmax of each row, values.

   T queries (default: as many as keys) see S keys. GROUP heads of queries share one of keys and values. With CAUSAL a
   query sees the keys up to its own, the loops ending there; with MASK a number is added to each score; with LENGTHS
   only so many keys of each head count, the others are minus infinity. With BF16 operands and results are bfloat16,
   and sums float. */
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
#ifdef BF16
#include <polydl.h>
typedef polydl_bf16 real;
#define VALUE(x) polydl_to_float(x)
#define STORED(x) polydl_to_bf16(x)
#else
typedef float real;
#define VALUE(x) (x)
#define STORED(x) (x)
#endif

void attention(const real Q[restrict HEADS][T][D], const real K[restrict HEADS / GROUP][S][D],
               const real V[restrict HEADS / GROUP][S][D],
#ifdef MASK
               const float mask[restrict T][S],
#endif
#ifdef LENGTHS
               const int lengths[restrict HEADS],
#endif
               real O[restrict HEADS][T][D])
{
    static float p[HEADS][T][S];
#ifdef BF16
    static real w[HEADS][T][S];
#endif
    const float scale = SCALE;
#pragma scop
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < T; i++)
            for (int j = 0; j < KEYS; j++) {
                float s = 0.0f;
                for (int d = 0; d < D; d++)
                    s += VALUE(Q[h][i][d]) * VALUE(K[h / GROUP][j][d]);
                p[h][i][j] = s;
            }
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < T; i++) {
            float most = -INFINITY;
            for (int j = 0; j < KEYS; j++) {
#ifdef MASK
                p[h][i][j] = p[h][i][j] * scale + mask[i][j];
#elif defined LENGTHS
                p[h][i][j] = j < lengths[h] ? p[h][i][j] * scale : -INFINITY;
#else
                p[h][i][j] = p[h][i][j] * scale;
#endif
            }
            for (int j = 0; j < KEYS; j++)
                most = p[h][i][j] > most ? p[h][i][j] : most;
            float sum = 0.0f;
            for (int j = 0; j < KEYS; j++) {
                p[h][i][j] = expf(p[h][i][j] - most);
                sum += p[h][i][j];
            }
            for (int j = 0; j < KEYS; j++)
#ifdef BF16
                w[h][i][j] = STORED(p[h][i][j] / sum);
#else
                p[h][i][j] = p[h][i][j] / sum;
#endif
        }
#ifdef BF16
#define WEIGHT VALUE(w[h][i][j])
#else
#define WEIGHT p[h][i][j]
#endif
    for (int h = 0; h < HEADS; h++)
        for (int i = 0; i < T; i++)
            for (int d = 0; d < D; d++) {
                float s = 0.0f;
                for (int j = 0; j < KEYS; j++)
                    s += WEIGHT * VALUE(V[h / GROUP][j][d]);
                O[h][i][d] = STORED(s);
            }
#pragma endscop
}
