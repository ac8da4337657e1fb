#include <stdint.h>
void common_bits_of_rows(const uint32_t a[M][N], const unsigned char use[M], uint32_t out[N])
{
    for (int j = 0; j < N; j++)
        out[j] = 0xffffffffu;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            if (use[i])
                out[j] &= a[i][j];
}
