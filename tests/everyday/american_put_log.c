#include <math.h>

/* The same in doubles, as those write it who have no pow(), of two factors, and with conditions. */
void american_put_log(int n, double s, double k, double r, double sigma, double t, double *restrict v)
{
    double dt = t / n, x = sigma * sqrt(dt), disc = exp(-r * dt);
    double p = (exp(r * dt) - exp(-x)) / (exp(x) - exp(-x));
    for (int i = 0; i <= n; i++) {
        double st = s * exp(x * i) * exp(-x * (n - i));
        v[i] = k > st ? k - st : 0.0;
    }
    for (int step = n - 1; step >= 0; step--)
        for (int i = 0; i <= step; i++) {
            double y = 2 * i - step;
            double st = s * exp(x * y);
            v[i] = disc * (p * v[i + 1] + (1 - p) * v[i]);
            if (v[i] < k - st)
                v[i] = k - st;
        }
}
