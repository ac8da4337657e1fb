void box_5x5(const float in[H + 4][W + 4], float out[H][W])
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            float sum = 0.0f;
            for (int i = 0; i < 5; i++)
                for (int j = 0; j < 5; j++)
                    sum += in[y + i][x + j];
            out[y][x] = sum / 25.0f;
        }
}
