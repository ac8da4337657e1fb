// expect: 2:1: '/dev/zero' is a device or a pipe, not a header
#include </dev/zero>
void f(float A[restrict 4]) {
#pragma scop
    for (int i = 0; i < 4; i++)
        A[i] = 0.0f;
#pragma endscop
}
