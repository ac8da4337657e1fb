void column_extremes(const float x[M][N], float least[N], float most[N])
{
    for (int j = 0; j < N; j++)
        least[j] = most[j] = x[0][j];
    for (int i = 1; i < M; i++)
        for (int j = 0; j < N; j++) {
            if (x[i][j] < least[j])
                least[j] = x[i][j];
            if (x[i][j] > most[j])
                most[j] = x[i][j];
        }
}
