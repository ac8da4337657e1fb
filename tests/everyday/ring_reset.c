/* Adds what a ring of past values holds, whose place is counted up and set back. */
void ring_reset(int n, int m, const float *restrict ring, float *restrict y)
{
    int k = 0;
    for (int i = 0; i < m; i++) {
        y[i] += ring[k];
        if (++k == n)
            k = 0;
    }
}
