void smallest_from_end(const float x[N], float smallest[1])
{
    float m = x[N - 1];
    for (int i = N - 2; i >= 0; i--)
        if (m > x[i])
            m = x[i];
    smallest[0] = m;
}
