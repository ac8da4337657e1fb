void conv_dilated_gradient(const float dout[F][H][W], const float w[F][NC][3][3], float din[NC][H + 8][W + 8])
{
    for (int c = 0; c < NC; c++)
        for (int f = 0; f < F; f++)
            for (int y = 0; y < H; y++)
                for (int x = 0; x < W; x++)
                    for (int r = 0; r < 3; r++)
                        for (int s = 0; s < 3; s++)
                            din[c][y + 4 * r][x + 4 * s] += dout[f][y][x] * w[f][c][r][s];
}
