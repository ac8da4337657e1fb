/* A window of an image as one row, as im2col packs it: an index that only ever goes up. */
void pack_window(const float image[H][W], float packed[(H - 2) * (W - 2) * 9])
{
    int at = 0;
    for (int y = 0; y < H - 2; y++)
        for (int x = 0; x < W - 2; x++)
            for (int dy = 0; dy < 3; dy++)
                for (int dx = 0; dx < 3; dx++)
                    packed[at++] = image[y + dy][x + dx];
}
