void fullest_row(const signed char a[M][N], int at[1], int count[1])
{
    int best = -1, r = 0;
    for (int i = 0; i < M; i++) {
        int n = 0;
        for (int j = 0; j < N; j++)
            if (a[i][j] != 0)
                n++;
        if (n > best) {
            best = n;
            r = i;
        }
    }
    at[0] = r;
    count[0] = best;
}
