void least_where(const float a[M][N], const float w[M][N], float lo[N])
{
    for (int j = 0; j < N; j++)
        lo[j] = 1e30f;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            if (w[i][j] > 0 && a[i][j] < lo[j])
                lo[j] = a[i][j];
}
