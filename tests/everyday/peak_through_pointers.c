void peak_through_pointers(int n, const int *restrict x, int peak[1])
{
    int m = x[0];
    for (const int *p = x + 1, *end = x + n; p != end; p++)
        m = *p > m ? *p : m;
    peak[0] = m;
}
