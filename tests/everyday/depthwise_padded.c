/* Depthwise convolution, an image for each channel, what lies outside of the image left out. */
void depthwise_padded(const float in[CH][H * S][W * S], const float w[CH][K][K], float out[CH][H][W])
{
    for (int c = 0; c < CH; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                float sum = 0.0f;
                for (int i = 0; i < K; i++)
                    for (int j = 0; j < K; j++) {
                        int iy = y * S + i - K / 2;
                        int ix = x * S + j - K / 2;
                        if (iy >= 0 && iy < H * S && ix >= 0 && ix < W * S)
                            sum += in[c][iy][ix] * w[c][i][j];
                    }
                out[c][y][x] = sum;
            }
}
