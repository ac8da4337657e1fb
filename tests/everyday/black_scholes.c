#include <math.h>

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x * 0.7071067811865476);
}

void black_scholes(int n, const double *restrict spot, const double *restrict strike, const double *restrict years,
                   double rate, double vol, double *restrict call, double *restrict put)
{
    for (int i = 0; i < n; i++) {
        double sq = vol * sqrt(years[i]);
        double d1 = (log(spot[i] / strike[i]) + (rate + 0.5 * vol * vol) * years[i]) / sq;
        double d2 = d1 - sq;
        double disc = strike[i] * exp(-rate * years[i]);
        call[i] = spot[i] * normal_cdf(d1) - disc * normal_cdf(d2);
        put[i] = disc * normal_cdf(-d2) - spot[i] * normal_cdf(-d1);
    }
}
