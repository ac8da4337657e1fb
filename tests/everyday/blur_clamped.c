#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

void blur_clamped(const float in[H][W], float out[H][W])
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++) {
            float s = 0.0f;
            for (int d = -2; d <= 2; d++)
                s += in[y][MIN(MAX(x + d, 0), W - 1)];
            out[y][x] = s * 0.2f;
        }
}
