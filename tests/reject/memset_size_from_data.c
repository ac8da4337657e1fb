// expect: 8:22: data decide how many bytes 'memset' fills: 'm' is computed from data
#include <string.h>
void f(int p[restrict 64], const int q[restrict 64])
{
#pragma scop
    for (int i = 0; i < 8; i++) {
        int m = q[i];
        memset(p, 0, m * sizeof(int));
    }
#pragma endscop
}
