#include <math.h>

static inline float logistic(float x) { return 1.0f / (1.0f + expf(-x)); }

void sigmoid(const float *restrict x, float *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = logistic(x[i]);
}
