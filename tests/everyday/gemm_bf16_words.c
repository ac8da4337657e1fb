/* A product of matrices of bfloat16, which are kept as the upper halves of floats. */
#include <stdint.h>
#include <string.h>

static inline float widened(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

void gemm_bf16_words(const uint16_t A[M][K], const uint16_t B[K][N], float C[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++)
                sum += widened(A[i][k]) * widened(B[k][j]);
            C[i][j] = sum;
        }
}
