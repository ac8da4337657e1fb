void parameter_clamped(int n, int limit, const double *x, double *y)
{
#pragma scop
    if (n > limit)
        n = limit;
    n--;
    for (int i = 1; i < n; i++)
        y[i] = 0.25 * x[i - 1] + 0.5 * x[i] + 0.25 * x[i + 1];
#pragma endscop
}
