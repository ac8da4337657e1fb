#include <complex.h>
#include <math.h>

/* Turns samples by a growing phase, and sums up their power where they are numbers. */
void complex_rotate(int n, float step, float complex *restrict out, const float complex *in, float *restrict power)
{
    float sum = 0.0f;
    for (int i = 0; i < n; i++) {
        out[i] = in[i] * cexpf(I * step * (float)i) - 2.0f * I;
        if (!isnan(crealf(out[i])))
            sum += crealf(out[i]) * crealf(out[i]) + cimagf(out[i]) * cimagf(out[i]);
    }
    *power = sum / n;
}
