#include <math.h>
#define TWO_PI 6.283185307179586

void dft_naive(const double x[N], double re[N], double im[N])
{
    for (int k = 0; k < N; k++) {
        re[k] = 0;
        im[k] = 0;
        for (int n = 0; n < N; n++) {
            double angle = -TWO_PI * k * n / N;
            re[k] += x[n] * cos(angle);
            im[k] += x[n] * sin(angle);
        }
    }
}
