/* Most likely path through a hidden Markov model: scores forward. */
#include <math.h>

#ifndef T
#define T 40
#endif
#ifndef S
#define S 40
#endif

void viterbi(const float logp[restrict S][S], const float emit[restrict T][S], float score[restrict T][S])
{
#pragma scop
    for (int s = 0; s < S; s++)
        score[0][s] = emit[0][s];
    for (int t = 1; t < T; t++)
        for (int s = 0; s < S; s++) {
            score[t][s] = score[t - 1][0] + logp[0][s];
            for (int r = 1; r < S; r++)
                score[t][s] = fmaxf(score[t][s], score[t - 1][r] + logp[r][s]);
            score[t][s] += emit[t][s];
        }
#pragma endscop
}
