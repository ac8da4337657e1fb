#define TILE 32
#define MIN(a, b) ((a) < (b) ? (a) : (b))

/* In tiles that fit into the caches, with a sum in a register, as in many lecture notes. */
void gemm_tiled(int M, int N, int K, const float A[restrict M][K], const float B[restrict K][N],
                float C[restrict M][N])
{
    for (int i0 = 0; i0 < M; i0 += TILE)
        for (int k0 = 0; k0 < K; k0 += TILE)
            for (int j0 = 0; j0 < N; j0 += TILE)
                for (int i = i0; i < MIN(i0 + TILE, M); i++)
                    for (int j = j0; j < MIN(j0 + TILE, N); j++) {
                        float sum = C[i][j];
                        for (int k = k0; k < MIN(k0 + TILE, K); k++)
                            sum += A[i][k] * B[k][j];
                        C[i][j] = sum;
                    }
}
