void summary_where(const double x[N], const unsigned char use[N], double out[3], int used[1])
{
    double lo = 1e300, hi = -1e300, s = 0;
    int n = 0;
    for (int i = 0; i < N; i++) {
        if (!use[i])
            continue;
        if (x[i] < lo)
            lo = x[i];
        if (x[i] > hi)
            hi = x[i];
        s += x[i];
        n++;
    }
    out[0] = lo;
    out[1] = hi;
    out[2] = s;
    used[0] = n;
}
