/* Loops that run downwards in steps of three, and one that depends on its direction. */
#ifndef N
#define N 300
#endif

void reversed(double x[restrict N], const double y[restrict N], double z[restrict N])
{
    int i;
#pragma scop
    for (i = N - 1; i >= 0; i -= 3)
        z[i] = 2 * y[i] + 1;
    for (i = N - 2; i >= 0; --i)
        x[i] = 0.5 * x[i + 1] + y[i];
    for (i = N; i-- > 0;)
        z[i] += x[N - 1 - i];
#pragma endscop
}
