/* A dilated convolution in one dimension, as networks over sequences have. */
void conv1d_dilated(const float in[CI][W + 8 * (TAPS - 1)], const float w[CO][CI][TAPS], float out[CO][W])
{
    for (int k = 0; k < CO; k++)
        for (int x = 0; x < W; x++) {
            float sum = 0.0f;
            for (int c = 0; c < CI; c++)
                for (int s = 0; s < TAPS; s++)
                    sum += w[k][c][s] * in[c][x + 8 * s];
            out[k][x] = sum;
        }
}
