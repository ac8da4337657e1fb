void resize_nearest(const int src[SH][SW], int dst[DH][DW])
{
    for (int y = 0; y < DH; y++)
        for (int x = 0; x < DW; x++)
            dst[y][x] = src[y * SH / DH][x * SW / DW];
}
