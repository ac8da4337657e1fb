void column_argmax(const float x[M][N], float best[N], int where[N])
{
    for (int j = 0; j < N; j++) {
        best[j] = x[0][j];
        where[j] = 0;
    }
    for (int i = 1; i < M; i++)
        for (int j = 0; j < N; j++)
            if (x[i][j] > best[j]) {
                best[j] = x[i][j];
                where[j] = i;
            }
}
