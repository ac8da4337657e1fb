#include <stdint.h>

void popcount_words(const uint32_t words[N], int counts[N])
{
    for (int i = 0; i < N; i++) {
        uint32_t v = words[i];
        v = v - ((v >> 1) & 0x55555555u);
        v = (v & 0x33333333u) + ((v >> 2) & 0x33333333u);
        counts[i] = (((v + (v >> 4)) & 0x0F0F0F0Fu) * 0x01010101u) >> 24;
    }
}
