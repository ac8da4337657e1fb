/* Nine-point Gauss-Seidel in time. */
#ifndef T
#define T 10
#endif
#ifndef N
#define N 60
#endif

void seidel_2d(double A[restrict N][N])
{
#pragma scop
    for (int t = 0; t <= T - 1; t++)
        for (int i = 1; i <= N - 2; i++)
            for (int j = 1; j <= N - 2; j++)
                A[i][j] = (A[i - 1][j - 1] + A[i - 1][j] + A[i - 1][j + 1] + A[i][j - 1] + A[i][j] + A[i][j + 1]
                           + A[i + 1][j - 1] + A[i + 1][j] + A[i + 1][j + 1]) / 9.0;
#pragma endscop
}
