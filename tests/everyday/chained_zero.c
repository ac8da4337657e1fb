void chained_zero(float x[N], float y[N])
{
    for (int i = 0; i < N; i++)
        x[i] = y[i] = 0.0f;
}
