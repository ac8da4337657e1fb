void sensor_summary(const short x[N], long sum[2], short range[2])
{
    long total = 0, squares = 0;
    short low = x[0], high = x[0];
    for (int i = 0; i < N; i++) {
        total += x[i];
        squares += (long)x[i] * x[i];
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    sum[0] = total;
    sum[1] = squares;
    range[0] = low;
    range[1] = high;
}
