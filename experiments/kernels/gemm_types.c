/* C = A * B, row-major, with factors of small types. */
#if DTYPE == 1 /* bf16 */
#include <polydl.h>
typedef polydl_bf16 left;
typedef polydl_bf16 right;
typedef float sum;
#define VALUE(x) polydl_to_float(x)
#elif DTYPE == 2 /* half */
typedef _Float16 left;
typedef _Float16 right;
typedef float sum;
#define VALUE(x) (float)(x)
#elif DTYPE == 3 /* u8s8 */
#include <stdint.h>
typedef uint8_t left;
typedef int8_t right;
typedef int32_t sum;
#define VALUE(x) (x)
#elif DTYPE == 4 /* s8s8 */
#include <stdint.h>
typedef int8_t left;
typedef int8_t right;
typedef int32_t sum;
#define VALUE(x) (x)
#elif DTYPE == 5 /* s16 */
#include <stdint.h>
typedef int16_t left;
typedef int16_t right;
typedef int32_t sum;
#define VALUE(x) (x)
#else
#error "DTYPE is 1 (bf16), 2 (half), 3 (u8s8), 4 (s8s8) or 5 (s16)"
#endif

void matmul(const left A[restrict M][K], const right B[restrict K][N], sum C[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            C[i][j] = 0;
            for (int k = 0; k < K; k++)
                C[i][j] += VALUE(A[i][k]) * VALUE(B[k][j]);
        }
#pragma endscop
}
