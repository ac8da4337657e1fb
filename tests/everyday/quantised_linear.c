#include <math.h>
#include <stdint.h>

/* A fully connected layer of bytes: zero points of both operands, a bias, a relu, rounded and clamped to bytes. */
static const int32_t output_zero_point = 3;

void quantised_linear(const uint8_t x[restrict M][K], const int8_t w[restrict K][N], const int32_t bias[restrict N],
                      int32_t x_zero, int32_t w_zero, float scale, uint8_t y[restrict M][N])
{
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            int32_t acc = 0;
            for (int k = 0; k < K; k++) {
                const int32_t a = (int32_t)x[i][k] - x_zero;
                const int32_t b = (int32_t)w[k][j] - w_zero;
                acc += a * b;
            }
            acc += bias[j];
            if (acc < 0)
                acc = 0;
            int32_t q = (int32_t)lrintf((float)acc * scale) + output_zero_point;
            q = q < 0 ? 0 : q > 255 ? 255 : q;
            y[i][j] = (uint8_t)q;
        }
    }
}
