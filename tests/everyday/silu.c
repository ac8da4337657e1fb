#include <math.h>

void silu(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = x[i] / (1.0f + expf(-x[i]));
}
