/* C += A^T * B. */
#ifndef M
#define M 120
#endif
#ifndef N
#define N 120
#endif
#ifndef K
#define K 120
#endif

void gemm_tn(const float A[restrict K][M], const float B[restrict K][N], float C[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < K; k++)
                C[i][j] += A[k][i] * B[k][j];
#pragma endscop
}
