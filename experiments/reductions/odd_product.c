#include <stdint.h>
void odd_product(const uint64_t a[N], uint64_t out[1])
{
    uint64_t p = 1;
    for (long i = 0; i < N; i++)
        p *= 2 * a[i] + 1;
    out[0] = p;
}
