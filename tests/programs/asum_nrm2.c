/* Sum of absolute values and Euclidean norm of one vector. */
#include <math.h>

#ifndef N
#define N 4000
#endif

void asum_nrm2(const float x[restrict N], float result[restrict 2])
{
#pragma scop
    result[0] = 0.0f;
    result[1] = 0.0f;
    for (int i = 0; i < N; i++) {
        result[0] += fabsf(x[i]);
        result[1] += x[i] * x[i];
    }
    result[1] = sqrtf(result[1]);
#pragma endscop
}
