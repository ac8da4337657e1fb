#include <math.h>

/* B images of G groups of C channels of S pixels. */
void group_norm(const float x[B][G][C][S], const float weight[G][C], const float bias[G][C], float y[B][G][C][S])
{
    for (int b = 0; b < B; b++)
        for (int g = 0; g < G; g++) {
            float mean = 0.0f, var = 0.0f;
            for (int c = 0; c < C; c++)
                for (int s = 0; s < S; s++)
                    mean += x[b][g][c][s];
            mean /= C * S;
            for (int c = 0; c < C; c++)
                for (int s = 0; s < S; s++) {
                    float d = x[b][g][c][s] - mean;
                    var += d * d;
                }
            const float r = 1.0f / sqrtf(var / (C * S) + 1e-5f);
            for (int c = 0; c < C; c++)
                for (int s = 0; s < S; s++)
                    y[b][g][c][s] = (x[b][g][c][s] - mean) * r * weight[g][c] + bias[g][c];
        }
}
