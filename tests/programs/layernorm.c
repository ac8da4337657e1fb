/* Layer normalisation of every row. */
#include <math.h>

#ifndef M
#define M 60
#endif
#ifndef N
#define N 80
#endif

void layernorm(const float in[restrict M][N], const float gain[restrict N], const float bias[restrict N],
               float out[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++) {
        float mean = 0.0f, var = 0.0f;
        for (int j = 0; j < N; j++)
            mean += in[i][j];
        mean /= N;
        for (int j = 0; j < N; j++)
            var += (in[i][j] - mean) * (in[i][j] - mean);
        var = 1.0f / sqrtf(var / N + 1e-5f);
        for (int j = 0; j < N; j++)
            out[i][j] = (in[i][j] - mean) * var * gain[j] + bias[j];
    }
#pragma endscop
}
