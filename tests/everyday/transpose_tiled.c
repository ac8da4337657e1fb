#define TILE 16
#define min(x, y) ((x) < (y) ? (x) : (y))

void transpose_tiled(const float in[N][M], float out[M][N])
{
    for (int ii = 0; ii < N; ii += TILE)
        for (int jj = 0; jj < M; jj += TILE)
            for (int i = ii; i < min(ii + TILE, N); i++)
                for (int j = jj; j < min(jj + TILE, M); j++)
                    out[j][i] = in[i][j];
}
