void two_counters(const float x[N], float y[N])
{
    int i, k;
    for (i = 0, k = N - 1; i < N; i++, k--)
        y[i] = x[k];
}
