void masked_peak(const float x[N], const unsigned char mask[N], float peak[1])
{
    float m = -1e30f;
    for (int i = 0; i < N; i++)
        if (mask[i])
            m = x[i] > m ? x[i] : m;
    peak[0] = m;
}
