void first_over(const float x[N], float t, int at[1])
{
    int k = N;
    for (int i = N - 1; i >= 0; i--)
        if (x[i] > t)
            k = i;
    at[0] = k;
}
