#include <math.h>

/* Explicit finite differences in place: the value that was overwritten is in `before`. */
void option_differences(int n, int steps, double k, double dx, double x0, double a, double *restrict v)
{
    double b = 0.1 * a, c = 1 - 2 * b;
    for (int i = 0; i <= n; i++)
        v[i] = fmax(k - exp(x0 + i * dx), 0.0);
    for (int t = 0; t < steps; t++) {
        double before = v[0];
        for (int i = 1; i < n; i++) {
            double old = v[i], hold = b * before + c * old + b * v[i + 1];
            before = old;
            v[i] = fmax(hold, k - exp(x0 + i * dx));
        }
    }
}
