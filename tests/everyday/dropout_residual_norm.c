#include <math.h>

/* The end of a transformer's sublayer: bias, dropout with a given mask, residual, layer norm. */
void dropout_residual_norm(const float x[M][N], const float bias[N], const unsigned char mask[M][N],
                           const float residual[M][N], const float weight[N], const float beta[N], float y[M][N])
{
    static float h[M][N];
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            h[i][j] = residual[i][j] + (mask[i][j] ? (x[i][j] + bias[j]) * 1.1111111f : 0.0f);
    for (int i = 0; i < M; i++) {
        float mean = 0.0f, var = 0.0f;
        for (int j = 0; j < N; j++)
            mean += h[i][j];
        mean /= N;
        for (int j = 0; j < N; j++)
            var += (h[i][j] - mean) * (h[i][j] - mean);
        const float r = 1.0f / sqrtf(var / N + 1e-5f);
        for (int j = 0; j < N; j++)
            y[i][j] = (h[i][j] - mean) * r * weight[j] + beta[j];
    }
}
