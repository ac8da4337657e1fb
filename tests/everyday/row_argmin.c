void row_argmin(const double x[M][N], int where[M], double least[M])
{
    for (int i = 0; i < M; i++) {
        int at = 0;
        double best = x[i][0];
        for (int j = 1; j < N; j++) {
            if (x[i][j] < best) {
                at = j;
                best = x[i][j];
            }
        }
        where[i] = at;
        least[i] = best;
    }
}
