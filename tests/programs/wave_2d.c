/* Wave equation of second order in time: three time levels in one array. */
#ifndef T
#define T 12
#endif
#ifndef N
#define N 50
#endif

void wave_2d(float u[restrict 3][N][N])
{
#pragma scop
    for (int t = 2; t < T; t++)
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                u[t % 3][i][j] = 2 * u[(t - 1) % 3][i][j] - u[(t - 2) % 3][i][j]
                                 + 0.1f * (u[(t - 1) % 3][i - 1][j] + u[(t - 1) % 3][i + 1][j] + u[(t - 1) % 3][i][j - 1]
                                           + u[(t - 1) % 3][i][j + 1] - 4 * u[(t - 1) % 3][i][j]);
#pragma endscop
}
