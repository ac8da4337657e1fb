void last_least(const int x[N], int at[1], int value[1])
{
    int m = x[N - 1], k = N - 1;
    for (int i = N - 2; i >= 0; i--)
        if (x[i] < m) {
            m = x[i];
            k = i;
        }
    at[0] = k;
    value[0] = m;
}
