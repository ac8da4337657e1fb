typedef struct {
    short luma;
    signed char blue, red;
    float weight;
    long count;
} pixel;

void struct_pixels(pixel image[H][W], const pixel old[H][W])
{
    for (int y = 1; y < H - 1; y++)
        for (int x = 0; x < W; x++) {
            image[y][x].luma = (short)((old[y - 1][x].luma + 2 * old[y][x].luma + old[y + 1][x].luma) / 4);
            image[y][x].weight = old[y][x].weight * 0.5f + old[y][x].blue - old[y][x].red;
            image[y][x].count += image[y][x].luma > 2 ? 1 : 0;
        }
}
