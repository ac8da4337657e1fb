/* Depthwise convolution, sixteen channels side by side. */
void depthwise_blocked(const float in[CB][H * S + K - S][W * S + K - S][16], const float w[CB][K][K][16],
                       float out[CB][H][W][16])
{
    for (int b = 0; b < CB; b++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                for (int c = 0; c < 16; c++) {
                    float sum = 0.0f;
                    for (int i = 0; i < K; i++)
                        for (int j = 0; j < K; j++)
                            sum += in[b][y * S + i][x * S + j][c] * w[b][i][j][c];
                    out[b][y][x][c] = sum;
                }
}
