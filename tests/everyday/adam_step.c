#include <math.h>

void adam_step(float w[restrict N], float m[restrict N], float v[restrict N], const float g[restrict N], float rate,
               float beta1, float beta2, float eps)
{
    for (int i = 0; i < N; i++) {
        m[i] = beta1 * m[i] + (1.0f - beta1) * g[i];
        v[i] = beta2 * v[i] + (1.0f - beta2) * g[i] * g[i];
        w[i] -= rate * m[i] / (sqrtf(v[i]) + eps);
    }
}
