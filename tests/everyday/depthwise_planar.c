/* Depthwise convolution, an image for each channel. */
void depthwise_planar(const float in[CH][H * S + K - S][W * S + K - S], const float w[CH][K][K], float out[CH][H][W])
{
    for (int c = 0; c < CH; c++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                float sum = 0.0f;
                for (int i = 0; i < K; i++)
                    for (int j = 0; j < K; j++)
                        sum += in[c][y * S + i][x * S + j] * w[c][i][j];
                out[c][y][x] = sum;
            }
}
