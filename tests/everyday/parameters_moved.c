int parameters_moved(int n, int first, const float *x, float *y)
{
    if (n <= 0 || !x || !y)
        return -1;
    x += first;
    y = y + 2;
    n = n - first;
    for (int i = 0; i < n; i++)
        y[i] = 2.0f * x[i] + 1.0f;
    return 0;
}
