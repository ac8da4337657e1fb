/* Three planes become pixels, through one pointer. */
void interleave_channels(const unsigned char r[N], const unsigned char g[N], const unsigned char b[N],
                         unsigned char pixels[3 * N])
{
    unsigned char *out = pixels;
    for (int i = 0; i < N; i++) {
        *out++ = r[i];
        *out++ = g[i];
        *out++ = b[i];
    }
}
