/* Order of a chain of matrix products, by length of the interval. */
#include <math.h>

#ifndef N
#define N 80
#endif

void matrix_chain(const double p[restrict N + 1], double cost[restrict N][N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        cost[i][i] = 0.0;
    for (int len = 2; len <= N; len++)
        for (int i = 0; i + len <= N; i++) {
            cost[i][i + len - 1] = 1e30;
            for (int k = i; k < i + len - 1; k++)
                cost[i][i + len - 1] = fmin(cost[i][i + len - 1], cost[i][k] + cost[k + 1][i + len - 1]
                                            + p[i] * p[k + 1] * p[i + len]);
        }
#pragma endscop
}
