void range_of_bytes(const signed char x[N], signed char range[2])
{
    signed char low = x[0], high = x[0];
    for (int i = 1; i < N; i++) {
        if (x[i] < low)
            low = x[i];
        if (x[i] > high)
            high = x[i];
    }
    range[0] = low;
    range[1] = high;
}
