void row_argmax(const float x[M][N], int where[M])
{
    for (int i = 0; i < M; i++) {
        float best = x[i][0];
        int at = 0;
        for (int j = 1; j < N; j++)
            if (x[i][j] > best) {
                best = x[i][j];
                at = j;
            }
        where[i] = at;
    }
}
