#define RELU6(x) ((x) < 0.0f ? 0.0f : (x) > 6.0f ? 6.0f : (x))

/* Channels last, as in mobile networks. */
void depthwise_relu6(const float in[H + 2][W + 2][CH], const float w[3][3][CH], float out[H][W][CH])
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < CH; c++) {
                float sum = 0;
                for (int ky = 0; ky < 3; ky++)
                    for (int kx = 0; kx < 3; kx++)
                        sum += in[y + ky][x + kx][c] * w[ky][kx][c];
                out[y][x][c] = RELU6(sum);
            }
}
