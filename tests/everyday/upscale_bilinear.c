/* Twice as many rows and columns; what lies between pixels is the mean of its neighbours. */
void upscale_bilinear(const float (*restrict lo)[W], float (*restrict hi)[2 * W])
{
    for (int y = 0; y < H - 1; y++)
        for (int x = 0; x < W - 1; x++) {
            const float a = lo[y][x], b = lo[y][x + 1], c = lo[y + 1][x], d = lo[y + 1][x + 1];
            hi[2 * y][2 * x] = a;
            hi[2 * y][2 * x + 1] = 0.5f * (a + b);
            hi[2 * y + 1][2 * x] = 0.5f * (a + c);
            hi[2 * y + 1][2 * x + 1] = 0.25f * (a + b + c + d);
        }
}
