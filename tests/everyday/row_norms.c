#include <math.h>

void row_norms(const float x[M][N], float l1[M], float l2[M], float linf[M])
{
    for (int i = 0; i < M; i++) {
        float a = 0.0f, b = 0.0f, c = 0.0f;
        for (int j = 0; j < N; j++) {
            float v = fabsf(x[i][j]);
            a += v;
            b += v * v;
            c = v > c ? v : c;
        }
        l1[i] = a;
        l2[i] = sqrtf(b);
        linf[i] = c;
    }
}
