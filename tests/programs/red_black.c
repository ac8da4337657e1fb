/* Red-black Gauss-Seidel: loops of step 2 that start where the row number says. */
#ifndef T
#define T 8
#endif
#ifndef N
#define N 50
#endif

void red_black(double u[restrict N][N], const double f[restrict N][N])
{
#pragma scop
    for (int t = 0; t < T; t++) {
        for (int i = 1; i < N - 1; i++)
            for (int j = 1 + i % 2; j < N - 1; j += 2)
                u[i][j] = 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - f[i][j]);
        for (int i = 1; i < N - 1; i++)
            for (int j = 2 - i % 2; j < N - 1; j += 2)
                u[i][j] = 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - f[i][j]);
    }
#pragma endscop
}
