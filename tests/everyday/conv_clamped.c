static inline int clamp(int v, int low, int high)
{
    return v < low ? low : v > high ? high : v;
}

void conv_clamped(const float in[NC][H][W], const float w[F][NC][3][3], float out[F][H][W])
{
    for (int f = 0; f < F; f++)
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W; x++) {
                float s = 0.0f;
                for (int c = 0; c < NC; c++)
                    for (int ky = 0; ky < 3; ky++)
                        for (int kx = 0; kx < 3; kx++)
                            s += in[c][clamp(y + ky - 1, 0, H - 1)][clamp(x + kx - 1, 0, W - 1)] * w[f][c][ky][kx];
                out[f][y][x] = s;
            }
}
