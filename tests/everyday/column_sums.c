void column_sums(const float x[M][N], float sum[N])
{
    for (int j = 0; j < N; j++) {
        float s = 0.0f;
        for (int i = 0; i < M; i++)
            s += x[i][j];
        sum[j] = s;
    }
}
