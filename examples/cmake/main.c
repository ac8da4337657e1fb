#include <stdio.h>

#include "kernel.h"

static float A[N][N], B[N][N], C[N][N];

int main(void)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            A[i][j] = (float)((i + 2 * j) % 5 - 2);
            B[i][j] = (float)((3 * i + j) % 7 - 3);
        }
    gemm(A, B, C);
    double sum = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            sum += C[i][j] * (double)((i + j) % 11 + 1);
    printf("%.0f\n", sum);
    return 0;
}
