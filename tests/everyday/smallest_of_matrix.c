void smallest_of_matrix(const float x[M][N], int place[2])
{
    float best = x[0][0];
    int row = 0, column = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            if (x[i][j] < best) {
                best = x[i][j];
                row = i;
                column = j;
            }
    place[0] = row;
    place[1] = column;
}
