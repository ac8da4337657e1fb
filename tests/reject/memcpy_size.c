// expect: 7:22: data decide how many bytes 'memcpy' fills: it reads an array
#include <string.h>
void f(int p[restrict 64], const int q[restrict 64], int out[restrict 8])
{
#pragma scop
    for (int i = 0; i < 8; i++) {
        memcpy(p, q, p[0] * sizeof(int));
        out[i] = p[3];
    }
#pragma endscop
}
