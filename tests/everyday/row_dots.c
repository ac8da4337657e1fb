void row_dots(const double x[M][N], const double y[M][N], double dot[M])
{
    for (int i = 0; i < M; i++) {
        dot[i] = 0.0;
        for (int j = 0; j < N; j++)
            dot[i] += x[i][j] * y[i][j];
    }
}
