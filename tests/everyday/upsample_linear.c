void upsample_linear(const short *restrict in, short *restrict out, int n)
{
    for (int i = 0; i + 1 < n; i++) {
        out[2 * i] = in[i];
        out[2 * i + 1] = (in[i] + in[i + 1]) / 2;
    }
}
