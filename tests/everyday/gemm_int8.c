#include <stdint.h>

/* Quantised product: bytes in, 32-bit sums out. */
void gemm_int8(const int8_t A[M][K], const int8_t B[K][N], int32_t C[M][N], int zero_point)
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            int32_t acc = 0;
            for (int k = 0; k < K; k++)
                acc += (int32_t)A[i][k] * ((int32_t)B[k][j] - zero_point);
            C[i][j] = acc;
        }
}
