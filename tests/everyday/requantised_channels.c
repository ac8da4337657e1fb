#include <math.h>
#include <stdint.h>

/* Sums of bytes, then a pass over them that scales each column on its own and rounds to bytes. */
void requantised_channels(const int8_t A[restrict M][K], const int8_t B[restrict K][N], const int32_t zero[restrict N],
                          const float scale[restrict N], int32_t sums[restrict M][N], int8_t C[restrict M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            sums[i][j] = 0;
            for (int k = 0; k < K; k++)
                sums[i][j] += A[i][k] * (B[k][j] - zero[j]);
        }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float v = nearbyintf((float)sums[i][j] * scale[j]);
            if (v > 127.0f)
                v = 127.0f;
            if (v < -128.0f)
                v = -128.0f;
            C[i][j] = (int8_t)v;
        }
}
