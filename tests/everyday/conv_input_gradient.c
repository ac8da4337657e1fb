void conv_input_gradient(const float dout[F][H][W], const float w[F][NC][3][3], float din[NC][2 * H][2 * W])
{
    for (int c = 0; c < NC; c++)
        for (int y = 0; y < 2 * H; y++)
            for (int x = 0; x < 2 * W; x++)
                din[c][y][x] = 0.0f;
    for (int f = 0; f < F; f++)
        for (int c = 0; c < NC; c++)
            for (int oy = 0; oy < H; oy++)
                for (int ox = 0; ox < W; ox++)
                    for (int r = 0; r < 3; r++)
                        for (int s = 0; s < 3; s++) {
                            int iy = 2 * oy - 1 + r;
                            int ix = 2 * ox - 1 + s;
                            if (iy >= 0 && iy < 2 * H && ix >= 0 && ix < 2 * W)
                                din[c][iy][ix] += dout[f][oy][ox] * w[f][c][r][s];
                        }
}
