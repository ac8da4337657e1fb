typedef unsigned char u8;

void threshold_u8(u8 *restrict out, const u8 *restrict in, unsigned n, int level)
{
    unsigned i;
    for (i = 0; i != n; ++i)
        out[i] = (in[i] >= level) ? 0xFF : 0x00;
}
