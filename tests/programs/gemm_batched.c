/* Independent matrix products. */
#ifndef BATCH
#define BATCH 6
#endif
#ifndef M
#define M 40
#endif
#ifndef N
#define N 40
#endif
#ifndef K
#define K 40
#endif

void gemm_batched(const float A[restrict BATCH][M][K], const float B[restrict BATCH][K][N], float C[restrict BATCH][M][N])
{
#pragma scop
    for (int b = 0; b < BATCH; b++)
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                C[b][i][j] = 0.0f;
                for (int k = 0; k < K; k++)
                    C[b][i][j] += A[b][i][k] * B[b][k][j];
            }
#pragma endscop
}
