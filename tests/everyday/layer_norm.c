#include <math.h>
#define EPS 1e-5f

void layer_norm(float *restrict out, const float *restrict in, const float *restrict weight,
                const float *restrict bias, int B, int T, int C)
{
    for (int b = 0; b < B; b++) {
        for (int t = 0; t < T; t++) {
            const float *x = in + b * T * C + t * C;
            float m = 0.0f;
            for (int i = 0; i < C; i++)
                m += x[i];
            m = m / C;
            float v = 0.0f;
            for (int i = 0; i < C; i++) {
                float xshift = x[i] - m;
                v += xshift * xshift;
            }
            v = v / C;
            float s = 1.0f / sqrtf(v + EPS);
            float *out_bt = out + b * T * C + t * C;
            for (int i = 0; i < C; i++) {
                float n = s * (x[i] - m);
                float o = n * weight[i] + bias[i];
                out_bt[i] = o;
            }
        }
    }
}
