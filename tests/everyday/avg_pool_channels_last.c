void avg_pool_channels_last(const float in[2 * H + 1][2 * W + 1][CH], float out[H][W][CH])
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < CH; c++) {
                float sum = 0.0f;
                for (int i = 0; i < 3; i++)
                    for (int j = 0; j < 3; j++)
                        sum += in[2 * y + i][2 * x + j][c];
                out[y][x][c] = sum / 9.0f;
            }
}
