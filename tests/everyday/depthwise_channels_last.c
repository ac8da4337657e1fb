void depthwise_channels_last(const float in[H * S + K - S][W * S + K - S][CH], const float w[K][K][CH],
                             float out[H][W][CH])
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < CH; c++) {
                float sum = 0.0f;
                for (int i = 0; i < K; i++)
                    for (int j = 0; j < K; j++)
                        sum += in[y * S + i][x * S + j][c] * w[i][j][c];
                out[y][x][c] = sum;
            }
}
