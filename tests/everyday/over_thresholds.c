void over_thresholds(const short x[N], int t0, int t1, int t2, int out[3])
{
    int a = 0, b = 0, c = 0;
    for (int i = 0; i < N; i++) {
        a += x[i] > t0;
        b += x[i] > t1;
        if (x[i] > t2)
            c++;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
}
