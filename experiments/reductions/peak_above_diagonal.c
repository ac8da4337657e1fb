void peak_above_diagonal(const float a[N][N], int at[2], float value[1])
{
    float best = -1e30f;
    int r = -1, c = -1;
    for (int i = 0; i < N; i++)
        for (int j = i + 1; j < N; j++)
            if (a[i][j] > best) {
                best = a[i][j];
                r = i;
                c = j;
            }
    at[0] = r;
    at[1] = c;
    value[0] = best;
}
