void blur_reflected(const float in[H][W], const float k[5], float out[H][W])
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            float s = 0.0f;
            for (int d = -2; d <= 2; d++) {
                int yy = y + d;
                if (yy < 0)
                    yy = -yy;
                if (yy >= H)
                    yy = 2 * H - 2 - yy;
                int xx = x + d;
                if (xx < 0)
                    xx = -xx;
                if (xx >= W)
                    xx = 2 * W - 2 - xx;
                s += k[d + 2] * (in[yy][x] + in[y][xx]);
            }
            out[y][x] = s;
        }
}
