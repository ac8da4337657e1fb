/* Five-point average on a torus: subscripts modulo the size. */
#ifndef T
#define T 6
#endif
#ifndef N
#define N 36
#endif

void periodic_2d(double A[restrict N][N], double B[restrict N][N])
{
#pragma scop
    for (int t = 0; t < T; t++) {
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                B[i][j] = 0.25 * (A[(i + 1) % N][j] + A[(i + N - 1) % N][j] + A[i][(j + 1) % N] + A[i][(j + N - 1) % N]);
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                A[i][j] = B[i][j];
    }
#pragma endscop
}
