#include <math.h>

/* Many options, each with a lattice of its own. */
void option_chain(int m, int n, float r, float t, const float *restrict spot, const float *restrict strike,
                  const float *restrict sigma, float *restrict price)
{
#pragma scop
    for (int o = 0; o < m; o++) {
        float v[n + 1];
        float dt = t / n, u = expf(sigma[o] * sqrtf(dt)), d = 1 / u, disc = expf(-r * dt);
        float p = (expf(r * dt) - d) / (u - d);
        for (int i = 0; i <= n; i++)
            v[i] = fmaxf(strike[o] - spot[o] * powf(u, 2 * i - n), 0.0f);
        for (int step = n - 1; step >= 0; step--)
            for (int i = 0; i <= step; i++) {
                float hold = disc * (p * v[i + 1] + (1 - p) * v[i]);
                v[i] = fmaxf(hold, strike[o] - spot[o] * powf(u, 2 * i - step));
            }
        price[o] = v[0];
    }
#pragma endscop
}
