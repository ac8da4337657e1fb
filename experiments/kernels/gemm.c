/* C = A * B, row-major: what torch.mm and oneDNN compute. */
void matmul(const float A[restrict M][K], const float B[restrict K][N], float C[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            C[i][j] = 0;
            for (int k = 0; k < K; k++)
                C[i][j] += A[i][k] * B[k][j];
        }
#pragma endscop
}
