#include "kernel.h"

void gemm(const float A[restrict N][N], const float B[restrict N][N], float C[restrict N][N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                C[i][j] += A[i][k] * B[k][j];
#pragma endscop
}
