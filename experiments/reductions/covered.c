#include <stdint.h>
void covered(const uint64_t r[N][N], uint64_t mask, uint64_t cover[N])
{
    for (int j = 0; j < N; j++)
        cover[j] = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++)
            cover[j] |= r[i][j] & mask;
}
