void conv_same_if(const float in[NC][H][W], const float w[F][NC][3][3], float out[F][H][W])
{
    for (int f = 0; f < F; f++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                float s = 0.0f;
                for (int c = 0; c < NC; c++)
                    for (int ky = 0; ky < 3; ky++)
                        for (int kx = 0; kx < 3; kx++) {
                            int iy = y + ky - 1;
                            int ix = x + kx - 1;
                            if (iy >= 0 && iy < H && ix >= 0 && ix < W)
                                s += in[c][iy][ix] * w[f][c][ky][kx];
                        }
                out[f][y][x] = s;
            }
}
