#include <math.h>

void row_fmax(const float x[M][N], float peak[M])
{
    for (int i = 0; i < M; i++) {
        float m = 0.0f;
        for (int j = 0; j < N; j++)
            m = fmaxf(m, fabsf(x[i][j]));
        peak[i] = m;
    }
}
