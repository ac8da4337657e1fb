/* Heat equation with time in the array's first subscript modulo 2. */
#ifndef T
#define T 20
#endif
#ifndef N
#define N 60
#endif

void heat_2d(double A[restrict 2][N][N])
{
#pragma scop
    for (int t = 0; t < T; t++)
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                A[(t + 1) % 2][i][j] = 0.125 * (A[t % 2][i + 1][j] - 2.0 * A[t % 2][i][j] + A[t % 2][i - 1][j])
                                       + 0.125 * (A[t % 2][i][j + 1] - 2.0 * A[t % 2][i][j] + A[t % 2][i][j - 1])
                                       + A[t % 2][i][j];
#pragma endscop
}
