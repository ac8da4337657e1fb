#include <math.h>

void rms_norm_backward(const float dy[M][N], const float x[M][N], const float weight[N], float dx[M][N],
                       float dweight[N])
{
    for (int j = 0; j < N; j++)
        dweight[j] = 0.0f;
    for (int i = 0; i < M; i++) {
        float squares = 0.0f, dot = 0.0f;
        for (int j = 0; j < N; j++) {
            squares += x[i][j] * x[i][j];
            dot += dy[i][j] * weight[j] * x[i][j];
        }
        const float r = 1.0f / sqrtf(squares / N + 1e-5f);
        const float c = dot * r * r / N;
        for (int j = 0; j < N; j++) {
            dx[i][j] = r * (dy[i][j] * weight[j] - c * x[i][j]);
            dweight[j] += dy[i][j] * x[i][j] * r;
        }
    }
}
