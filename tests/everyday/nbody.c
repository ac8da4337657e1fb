#include <math.h>

void nbody(const float x[N], const float y[N], const float z[N], const float m[N], float ax[N], float ay[N], float az[N])
{
    for (int i = 0; i < N; i++) {
        float sx = 0.0f, sy = 0.0f, sz = 0.0f;
        for (int j = 0; j < N; j++) {
            float dx = x[j] - x[i];
            float dy = y[j] - y[i];
            float dz = z[j] - z[i];
            float r2 = dx * dx + dy * dy + dz * dz + 0.01f;
            float inv = 1.0f / sqrtf(r2);
            float f = m[j] * inv * inv * inv;
            sx += f * dx;
            sy += f * dy;
            sz += f * dz;
        }
        ax[i] = sx;
        ay[i] = sy;
        az[i] = sz;
    }
}
