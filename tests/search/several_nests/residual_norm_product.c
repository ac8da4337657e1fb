/* A residual is added, rows are normalised (root mean square), and a product follows. */
#include <math.h>

void f(const float X[restrict M][K], const float R[restrict M][K], const float g[restrict K],
       const float W[restrict K][N], float Y[restrict M][N])
{
    static float a[M][K], z[M][K];
#pragma scop
    for (int i = 0; i < M; i++)
        for (int k = 0; k < K; k++)
            a[i][k] = X[i][k] + R[i][k];
    for (int i = 0; i < M; i++) {
        float sum = 0.0f;
        for (int k = 0; k < K; k++)
            sum += a[i][k] * a[i][k];
        float scale = 1.0f / sqrtf(sum / K + 1e-5f);
        for (int k = 0; k < K; k++)
            z[i][k] = a[i][k] * scale * g[k];
    }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0.0f;
            for (int k = 0; k < K; k++)
                s += z[i][k] * W[k][j];
            Y[i][j] = s;
        }
#pragma endscop
}
