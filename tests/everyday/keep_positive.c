int keep_positive(const float x[N], float y[N])
{
    int kept = 0;
    for (int i = 0; i < N; i++)
        if (x[i] > 0.0f)
            y[kept++] = x[i];
    return kept;
}
