/* Gauss-Seidel with the six neighbours in space. */
#ifndef T
#define T 5
#endif
#ifndef N
#define N 18
#endif

void seidel_3d(double A[restrict N][N][N])
{
#pragma scop
    for (int t = 0; t < T; t++)
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                for (int k = 1; k < N - 1; k++)
                    A[i][j][k] = (A[i - 1][j][k] + A[i + 1][j][k] + A[i][j - 1][k] + A[i][j + 1][k] + A[i][j][k - 1]
                                  + A[i][j][k + 1]) / 6.0;
#pragma endscop
}
