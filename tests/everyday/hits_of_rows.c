void hits_of_rows(const float x[M][N], const float limit[N], unsigned hit[M])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            if (x[i][j] > limit[j])
                hit[i] |= 1u << (j & 31);
}
