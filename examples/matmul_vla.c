/* C += A * B with sizes known at run time: tune with --size M=...,N=...,K=... */
void matmul_vla(int M, int N, int K, float A[restrict M][K], float B[restrict K][N], float C[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < K; k++)
                C[i][j] += A[i][k] * B[k][j];
#pragma endscop
}
