void scale_forever(int n, int m, float *a, const float *s)
{
    int i = 0;
    for (;;) {
        if (i >= n) break;
        int j = 0;
        do {
            a[i * m + j] *= s[i];
        } while (++j < m);
        ++i;
    }
}
