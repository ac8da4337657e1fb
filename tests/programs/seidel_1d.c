/* Gauss-Seidel in one dimension, in time. */
#ifndef T
#define T 40
#endif
#ifndef N
#define N 500
#endif

void seidel_1d(double A[restrict N])
{
#pragma scop
    for (int t = 0; t < T; t++)
        for (int i = 1; i < N - 1; i++)
            A[i] = 0.25 * A[i - 1] + 0.5 * A[i] + 0.25 * A[i + 1];
#pragma endscop
}
