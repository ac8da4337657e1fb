#include <stdint.h>

/* Weights of 8 bits in groups of 64 with a scale and a zero point each, times several tokens. */
void quantized_tokens(const uint8_t w[M][K][64], const float scale[M][K], const uint8_t zero[M][K],
                      const int8_t x[N][K][64], const float x_scale[N][K], float y[N][M])
{
    for (int t = 0; t < N; t++)
        for (int i = 0; i < M; i++) {
            y[t][i] = 0;
            for (int g = 0; g < K; g++) {
                int32_t dot = 0;
                for (int j = 0; j < 64; j++)
                    dot += (w[i][g][j] - zero[i][g]) * x[t][g][j];
                y[t][i] += dot * (scale[i][g] * x_scale[t][g]);
            }
        }
}
