/* Batch normalisation with given statistics, then ReLU, each as a nest of its own. */
void bnorm_relu(float y[restrict NIMG][CHANNELS][HEIGHT][WIDTH], const float x[restrict NIMG][CHANNELS][HEIGHT][WIDTH],
                const float mean[restrict CHANNELS], const float scale[restrict CHANNELS],
                const float shift[restrict CHANNELS])
{
#pragma scop
    for (int n = 0; n < NIMG; n++)
        for (int c = 0; c < CHANNELS; c++)
            for (int h = 0; h < HEIGHT; h++)
                for (int w = 0; w < WIDTH; w++)
                    y[n][c][h][w] = (x[n][c][h][w] - mean[c]) * scale[c] + shift[c];
    for (int n = 0; n < NIMG; n++)
        for (int c = 0; c < CHANNELS; c++)
            for (int h = 0; h < HEIGHT; h++)
                for (int w = 0; w < WIDTH; w++)
                    y[n][c][h][w] = y[n][c][h][w] > 0.0f ? y[n][c][h][w] : 0.0f;
#pragma endscop
}
