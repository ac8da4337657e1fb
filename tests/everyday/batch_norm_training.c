#include <math.h>

void batch_norm_training(const float x[B][C][S], const float weight[C], const float bias[C], float y[B][C][S],
                         float running_mean[C], float running_var[C])
{
    for (int c = 0; c < C; c++) {
        float mean = 0.0f, var = 0.0f;
        for (int b = 0; b < B; b++)
            for (int s = 0; s < S; s++)
                mean += x[b][c][s];
        mean /= B * S;
        for (int b = 0; b < B; b++)
            for (int s = 0; s < S; s++)
                var += (x[b][c][s] - mean) * (x[b][c][s] - mean);
        const float r = 1.0f / sqrtf(var / (B * S) + 1e-5f);
        running_mean[c] = 0.9f * running_mean[c] + 0.1f * mean;
        running_var[c] = 0.9f * running_var[c] + 0.1f * (var / (B * S - 1));
        for (int b = 0; b < B; b++)
            for (int s = 0; s < S; s++)
                y[b][c][s] = (x[b][c][s] - mean) * r * weight[c] + bias[c];
    }
}
