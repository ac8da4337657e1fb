#include <math.h>

/* Exponentials in a row of their own, as kernels for narrow types have it. */
void softmax_buffered(const float x[M][N], float y[M][N])
{
    for (int i = 0; i < M; i++) {
        float e[N], most = -INFINITY, sum = 0.0f;
        for (int j = 0; j < N; j++)
            most = fmaxf(most, x[i][j]);
        for (int j = 0; j < N; j++) {
            e[j] = expf(x[i][j] - most);
            sum += e[j];
        }
        const float scale = 1.0f / sum;
        for (int j = 0; j < N; j++)
            y[i][j] = e[j] * scale;
    }
}
