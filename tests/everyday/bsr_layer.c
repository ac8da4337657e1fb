/* A layer with pruned weights in blocks of 8 x 8, as PyTorch and scipy store them (BSR), and what follows it. */
void bsr_layer(const int ptr[N + 1], const int col[N * R], const float val[N * R][8][8], const float x[M][8][J],
               const float bias[N][8], float y[N][8][J])
{
    for (int i = 0; i < N; i++)
        for (int r = 0; r < 8; r++)
            for (int j = 0; j < J; j++) {
                float sum = bias[i][r];
                for (int p = ptr[i]; p < ptr[i + 1]; p++)
                    for (int c = 0; c < 8; c++)
                        sum += val[p][r][c] * x[col[p]][c][j];
                y[i][r][j] = sum > 0.0f ? sum : 0.0f;
            }
}
