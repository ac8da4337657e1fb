void while_backwards(const double x[N], double y[N])
{
    int i = N;

    while (i-- > 0) {
        if (x[i] > 2.0)
            y[i] = x[i];
        else
            y[i] = y[i] * 0.5;
    }
}
