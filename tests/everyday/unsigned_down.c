/* Running sums from the end, counted down in unsigned until it wraps around. */
void unsigned_down(unsigned n, const float *restrict x, float *restrict y)
{
    float s = 0;
    for (unsigned i = n - 1; i != -1u; --i) {
        s += x[i];
        y[i] = s;
    }
}
