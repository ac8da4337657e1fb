/* bfloat16 by hand: the upper halves of floats, rounded to the nearest even one. */
#include <stdint.h>
#include <string.h>

static inline float to_float(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value)
        return (uint16_t)((bits >> 16) | 64);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void bf16_scale(uint16_t y[restrict N], const uint16_t x[restrict N], const float scale[restrict N])
{
    for (int i = 0; i < N; i++)
        y[i] = to_bf16(to_float(x[i]) * scale[i]);
}
