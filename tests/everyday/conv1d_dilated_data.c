/* The gradient of a dilated convolution in one dimension with respect to its input, which is zero before. */
void conv1d_dilated_data(const float dout[CO][W], const float w[CO][CI][TAPS], float din[CI][W + 8 * (TAPS - 1)])
{
    for (int c = 0; c < CI; c++)
        for (int x = 0; x < W + 8 * (TAPS - 1); x++)
            din[c][x] = 0.0f;
    for (int f = 0; f < CO; f++)
        for (int c = 0; c < CI; c++)
            for (int s = 0; s < TAPS; s++)
                for (int x = 0; x < W; x++)
                    din[c][x + 8 * s] += dout[f][x] * w[f][c][s];
}
