#include <math.h>

/* Options, of which expired ones take a way of their own and end the iteration. */
static double cdf(double x)
{
    return 0.5 * erfc(-x * 0.70710678118654752440);
}

void priced_early(long n, const double *spot, const double *strike, const double *years, double vol,
                  double *restrict price, double *restrict vega)
{
    double root, d1;
    long i;
    for (i = 0; i < n; i++) {
        if (years[i] <= 0.25) {
            price[i] = spot[i] > strike[i] ? spot[i] - strike[i] : 0.0;
            vega[i] = 0.0;
            continue;
        }
        root = sqrt(years[i]);
        d1 = (log(spot[i] / strike[i]) + 0.5 * vol * vol * years[i]) / (vol * root);
        price[i] = spot[i] * cdf(d1) - strike[i] * cdf(d1 - vol * root);
        vega[i] = spot[i] * root * 0.3989422804014327 * exp(-0.5 * d1 * d1);
    }
}
