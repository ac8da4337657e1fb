void palette(const unsigned char index[H][W], const unsigned char colours[16][3], unsigned char image[H][W][3])
{
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int c = 0; c < 3; c++)
                image[y][x][c] = colours[index[y][x] % 16][c];
}
