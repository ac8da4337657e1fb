void flags_of_all(long n, const unsigned *restrict flags, unsigned found[2])
{
    unsigned all = ~0u, any = 0;
    for (long i = 0; i < n; i++) {
        all &= flags[i];
        any |= flags[i];
    }
    found[0] = all;
    found[1] = any;
}
