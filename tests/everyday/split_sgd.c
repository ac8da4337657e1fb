/* Weights in two halves: the upper ones are bfloat16 for the forward pass, both together fp32 for the step. */
#include <stdint.h>
#include <string.h>

void split_sgd(uint16_t high[restrict N], uint16_t low[restrict N], const float gradient[restrict N], float rate)
{
    for (int i = 0; i < N; i++) {
        uint32_t bits = (uint32_t)high[i] << 16 | low[i];
        float w;
        memcpy(&w, &bits, sizeof w);
        w -= rate * gradient[i];
        memcpy(&bits, &w, sizeof bits);
        high[i] = (uint16_t)(bits >> 16);
        low[i] = (uint16_t)(bits & 0xffff);
    }
}
