#include <math.h>

/* Sweeps until nothing moves: the loops of a sweep are the region, the loop around them is not. */
void jacobi_until(const double f[N][N], double u[N][N], double next[N][N])
{
    double moved = 1;
    int sweeps = 0;
    while (moved > 1e-3 && sweeps < 5) {
        moved = 0;
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++) {
                next[i][j] = 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - f[i][j]);
                double d = fabs(next[i][j] - u[i][j]);
                if (d > moved) moved = d;
            }
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                u[i][j] = next[i][j];
        sweeps++;
    }
}
