#include <stdint.h>
void all_set(const int64_t x[N], int64_t out[1])
{
    int64_t u = -1;
    for (int i = 0; i < N; i++) {
        if (x[i] == 0)
            continue;
        u &= x[i];
    }
    out[0] = u;
}
