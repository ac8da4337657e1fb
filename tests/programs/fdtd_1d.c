/* Electric and magnetic field on a line. */
#ifndef T
#define T 40
#endif
#ifndef N
#define N 500
#endif

void fdtd_1d(double e[restrict N + 1], double h[restrict N])
{
#pragma scop
    for (int t = 1; t <= T; t++) {
        for (int i = 1; i < N; i++)
            e[i] = e[i] - 0.5 * (h[i] - h[i - 1]);
        for (int i = 0; i < N; i++)
            h[i] = h[i] - 0.7 * (e[i + 1] - e[i]);
    }
#pragma endscop
}
