void autocorrelation(int n, int lags, const float *restrict x, double *restrict r)
{
    for (int lag = 0; lag < lags; lag++) {
        double sum = 0.0;
        for (int i = lag; i < n; i++)
            sum += (double)x[i] * x[i - lag];
        r[lag] = sum / n;
    }
}
