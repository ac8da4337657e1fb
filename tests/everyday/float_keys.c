/* Integers in the order of floats, for sorting by digits. */
#include <stdint.h>
#include <string.h>

void float_keys(uint32_t keys[restrict N], const float values[restrict N])
{
    for (int i = 0; i < N; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        keys[i] = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    }
}
