/* C += A * B, row-major. */
#ifndef M
#define M 300
#endif
#ifndef N
#define N 100
#endif
#ifndef K
#define K 200
#endif

void matmul(float A[restrict M][K], float B[restrict K][N], float C[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < K; k++)
                C[i][j] += A[i][k] * B[k][j];
#pragma endscop
}
