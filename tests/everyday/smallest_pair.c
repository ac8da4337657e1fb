void smallest_pair(const float d[M][N], int at[2])
{
    float least = d[0][0];
    int row = 0, column = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            if (d[i][j] < least) {
                least = d[i][j];
                row = i;
                column = j;
            }
    at[0] = row;
    at[1] = column;
}
