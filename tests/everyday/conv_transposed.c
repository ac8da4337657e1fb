void conv_transposed(const float in[NC][H][W], const float w[NC][F][4][4], const float bias[F],
                     float out[F][2 * H + 2][2 * W + 2])
{
    for (int f = 0; f < F; f++)
        for (int y = 0; y < 2 * H + 2; y++)
            for (int x = 0; x < 2 * W + 2; x++)
                out[f][y][x] = bias[f];
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < NC; c++)
                for (int f = 0; f < F; f++)
                    for (int r = 0; r < 4; r++)
                        for (int s = 0; s < 4; s++)
                            out[f][2 * y + r][2 * x + s] += in[c][y][x] * w[c][f][r][s];
}
