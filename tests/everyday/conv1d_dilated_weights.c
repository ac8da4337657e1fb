/* The gradient of a dilated convolution in one dimension with respect to its weights. */
void conv1d_dilated_weights(const float dout[CO][W], const float in[CI][W + 8 * (TAPS - 1)], float dw[CO][CI][TAPS])
{
    for (int f = 0; f < CO; f++)
        for (int c = 0; c < CI; c++)
            for (int s = 0; s < TAPS; s++) {
                float sum = 0.0f;
                for (int x = 0; x < W; x++)
                    sum += dout[f][x] * in[c][x + 8 * s];
                dw[f][c][s] = sum;
            }
}
