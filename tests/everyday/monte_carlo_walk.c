#include <stdint.h>

/* Many walks at once, each with a congruential generator of its own: deterministic from run to run. */
void monte_carlo_walk(uint32_t seed[PATHS], float price[PATHS], float drift)
{
    for (int step = 0; step < STEPS; step++)
        for (int p = 0; p < PATHS; p++) {
            seed[p] = seed[p] * 1664525u + 1013904223u;
            float u = (seed[p] >> 8) * (1.0f / 16777216.0f);
            price[p] *= 1.0f + drift + 0.01f * (u - 0.5f);
        }
}
