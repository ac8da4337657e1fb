void bilinear(const float image[H][W], const float at_x[OW], const float at_y[OH], float out[OH][OW])
{
    for (int i = 0; i < OH; i++)
        for (int j = 0; j < OW; j++) {
            float x = at_x[j], y = at_y[i];
            int left = (int)x, top = (int)y;
            int right = left + 1 < W ? left + 1 : W - 1;
            int bottom = top + 1 < H ? top + 1 : H - 1;
            float a = x - left, b = y - top;
            out[i][j] = (1 - b) * ((1 - a) * image[top][left] + a * image[top][right]) +
                        b * ((1 - a) * image[bottom][left] + a * image[bottom][right]);
        }
}
