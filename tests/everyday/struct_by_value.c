struct image {
    int height, width;
    double *pixels;
};

void struct_by_value(struct image in, struct image out, double gain)
{
    for (int y = 1; y < in.height - 1; y++)
        for (int x = 0; x < in.width; x++)
            out.pixels[y * out.width + x] =
                gain * (in.pixels[(y - 1) * in.width + x] + in.pixels[(y + 1) * in.width + x]);
}
