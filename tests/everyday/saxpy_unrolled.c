void saxpy_unrolled(float a, const float x[N], float y[N])
{
    int i;
    for (i = 0; i + 4 <= N; i += 4) {
        y[i] += a * x[i];
        y[i + 1] += a * x[i + 1];
        y[i + 2] += a * x[i + 2];
        y[i + 3] += a * x[i + 3];
    }
    for (; i < N; i++)
        y[i] += a * x[i];
}
