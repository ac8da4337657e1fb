/* Convolution of images with channels innermost and zeros around them, for any number of images and channels and any
 * size; KH, KW and STRIDE are macros. */
void conv2d(int N, int C, int K, int H, int W,
            const float image[restrict N][STRIDE * (H - 1) + KH][STRIDE * (W - 1) + KW][C],
            const float filter[restrict KH][KW][C][K], float out[restrict N][H][W][K])
{
    for (int n = 0; n < N; n++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++)
                for (int k = 0; k < K; k++) {
                    out[n][y][x][k] = 0;
                    for (int r = 0; r < KH; r++)
                        for (int s = 0; s < KW; s++)
                            for (int c = 0; c < C; c++)
                                out[n][y][x][k] += image[n][STRIDE * y + r][STRIDE * x + s][c] * filter[r][s][c][k];
                }
}
