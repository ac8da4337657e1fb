/* Histogram equalisation: the last step, where every pixel goes through the table. */
void lookup_table(unsigned char img[H][W], const unsigned char lut[256])
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            img[y][x] = lut[img[y][x]];
}
