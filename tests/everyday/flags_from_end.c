#include <stdint.h>
void flags_from_end(const uint16_t *flags, unsigned out[1])
{
    const uint16_t *p = flags + N;
    unsigned m = 0;
    while (p > flags)
        m |= *--p;
    out[0] = m;
}
