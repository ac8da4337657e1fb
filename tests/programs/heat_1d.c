/* Explicit heat equation, two buffers swapped by copying, sizes known at run time. */
void heat_1d(int t_end, int n, double now[restrict n], double next[restrict n])
{
    int t, i;
#pragma scop
    for (t = 0; t < t_end; t++) {
        for (i = 1; i < n - 1; i++)
            next[i] = now[i] + 0.125 * (now[i - 1] - 2 * now[i] + now[i + 1]);
        for (i = 1; i < n - 1; i++)
            now[i] = next[i];
    }
#pragma endscop
}
