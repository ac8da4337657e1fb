#include <math.h>

void batchnorm_inference(int n, int c, int hw, float *restrict x, const float *restrict mean,
                         const float *restrict var, const float *restrict gamma, const float *restrict beta)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < c; j++) {
            float scale = gamma[j] / sqrtf(var[j] + 1e-5f);
            float shift = beta[j] - mean[j] * scale;
            for (int k = 0; k < hw; k++)
                x[(i * c + j) * hw + k] = x[(i * c + j) * hw + k] * scale + shift;
        }
}
