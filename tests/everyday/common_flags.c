void common_flags(const unsigned flags[M][N], unsigned every[N], unsigned any[N])
{
    for (int j = 0; j < N; j++) {
        every[j] = ~0u;
        any[j] = 0;
    }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            every[j] &= flags[i][j];
            any[j] |= flags[i][j];
        }
}
