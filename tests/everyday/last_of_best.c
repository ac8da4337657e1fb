void last_of_best(const int a[M][N], const unsigned char ok[M][N], int value[1], int row[1], int column[1])
{
    int best = -2147483647, r = -1, c = -1;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            if (ok[i][j] && a[i][j] >= best) {
                best = a[i][j];
                r = i;
                c = j;
            }
    value[0] = best;
    row[0] = r;
    column[0] = c;
}
