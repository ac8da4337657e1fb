int early_return(int n, const float *restrict x, float *restrict y)
{
    if (n <= 0)
        return -1;
    float scale = 2.0f;
    for (int i = 0; i < n; i++)
        y[i] = scale * x[i];
    return 0;
}
