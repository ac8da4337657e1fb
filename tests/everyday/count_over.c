void count_over(const float x[M][N], float limit, int count[M])
{
    for (int i = 0; i < M; i++) {
        int n = 0;
        for (int j = 0; j < N; j++)
            if (x[i][j] > limit)
                n++;
        count[i] = n;
    }
}
