#include <math.h>

/* A `do` loop that data end. */
void newton_roots(const double x[N], double root[N])
{
    for (int i = 0; i < N; i++) {
        double a = x[i] * x[i] + 1, g = a / 2 + 1;
        int left = 30;
        do {
            g = 0.5 * (g + a / g);
            left--;
        } while (fabs(g * g - a) > 1e-9 && left > 0);
        root[i] = g;
    }
}
