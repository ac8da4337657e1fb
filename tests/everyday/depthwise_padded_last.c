/* Depthwise convolution, channels last, as deep networks have it: what lies outside of the image is passed over. */
void depthwise_padded_last(const float in[H * S][W * S][CH], const float w[K][K][CH], float out[H][W][CH])
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < CH; c++) {
                float sum = 0.0f;
                for (int i = 0; i < K; i++) {
                    int iy = y * S - K / 2 + i;
                    if (iy < 0 || iy >= H * S)
                        continue;
                    for (int j = 0; j < K; j++) {
                        int ix = x * S - K / 2 + j;
                        if (ix < 0 || ix >= W * S)
                            continue;
                        sum += in[iy][ix][c] * w[i][j][c];
                    }
                }
                out[y][x][c] = sum;
            }
}
