#include <math.h>

void silu_backward(const float *restrict x, const float *restrict dy, float *restrict dx, int n)
{
    for (int i = 0; i < n; i++) {
        float s = 1.0f / (1.0f + expf(-x[i]));
        dx[i] = dy[i] * s * (1.0f + x[i] * (1.0f - s));
    }
}
