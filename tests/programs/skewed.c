/* A Gauss-Seidel sweep written along its wavefronts. */
#ifndef N
#define N 60
#endif

#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))

void skewed(double A[restrict N][N])
{
#pragma scop
    for (int w = 2; w <= 2 * N - 4; w++)
        for (int i = MAX(1, w - N + 2); i <= MIN(N - 2, w - 1); i++)
            A[i][w - i] = 0.25 * (A[i - 1][w - i] + A[i][w - i - 1] + A[i + 1][w - i] + A[i][w - i + 1]);
#pragma endscop
}
