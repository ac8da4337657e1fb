#include <math.h>

/* An American put by a binomial lattice, in place: a step back in time for each row. */
void american_put(int n, float s, float k, float r, float sigma, float t, float *restrict v)
{
    float dt = t / n, u = expf(sigma * sqrtf(dt)), d = 1 / u, disc = expf(-r * dt);
    float p = (expf(r * dt) - d) / (u - d);
#pragma scop
    for (int i = 0; i <= n; i++) {
        float st = s * powf(u, 2 * i - n);
        v[i] = fmaxf(k - st, 0.0f);
    }
    for (int step = n - 1; step >= 0; step--)
        for (int i = 0; i <= step; i++) {
            float hold = disc * (p * v[i + 1] + (1 - p) * v[i]);
            float st = s * powf(u, 2 * i - step);
            v[i] = fmaxf(hold, k - st);
        }
#pragma endscop
}
