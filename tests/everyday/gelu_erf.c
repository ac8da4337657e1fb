#include <math.h>

void gelu_erf(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = 0.5f * x[i] * (1.0f + erff(x[i] * 0.70710678f));
}
