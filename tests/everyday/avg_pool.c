void avg_pool(const float in[C][H][W], float out[C][H / P][W / P])
{
    int c, y, x, i, j;
    for (c = 0; c < C; ++c)
        for (y = 0; y < H / P; ++y)
            for (x = 0; x < W / P; ++x)
            {
                out[c][y][x] = 0;
                for (i = y * P; i < (y + 1) * P; ++i)
                    for (j = x * P; j < (x + 1) * P; ++j)
                        out[c][y][x] += in[c][i][j];
                out[c][y][x] /= P * P;
            }
}
