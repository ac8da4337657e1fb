void row_extremes(const float x[M][N], float lo[M], float hi[M])
{
    for (int i = 0; i < M; i++) {
        float least = x[i][0], most = x[i][0];
        for (int j = 1; j < N; j++) {
            if (x[i][j] < least)
                least = x[i][j];
            if (x[i][j] > most)
                most = x[i][j];
        }
        lo[i] = least;
        hi[i] = most;
    }
}
