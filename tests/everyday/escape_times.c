void escape_times(int times[H][W])
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            float cr = x * 3.0f / W - 2.0f, ci = y * 2.0f / H - 1.0f, zr = 0.0f, zi = 0.0f;
            int k;
            for (k = 0; k < 64 && zr * zr + zi * zi < 4.0f; k++) {
                float t = zr * zr - zi * zi + cr;
                zi = 2.0f * zr * zi + ci;
                zr = t;
            }
            times[y][x] = k;
        }
}
