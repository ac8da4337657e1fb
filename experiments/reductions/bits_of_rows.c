#include <stdint.h>
void bits_of_rows(const uint32_t a[M][N], const uint32_t allowed[N], uint32_t out[M])
{
    for (int i = 0; i < M; i++) {
        uint32_t w = ~0u;
        for (int j = 0; j < N; j++)
            w &= a[i][j] | ~allowed[j];
        out[i] = w;
    }
}
