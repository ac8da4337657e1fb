#include <math.h>

/* One step of Viterbi's algorithm on many sequences at once. */
void viterbi_step(const float score[B][S], const float move[S][S], const float emit[B][S], float next[B][S])
{
    for (int b = 0; b < B; b++)
        for (int s = 0; s < S; s++) {
            float best = score[b][0] + move[0][s];
            for (int r = 1; r < S; r++)
                best = fmaxf(best, score[b][r] + move[r][s]);
            next[b][s] = best + emit[b][s];
        }
}
