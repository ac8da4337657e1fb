void masked_sum(const float x[M][N], const float mask[M][N], float sum[M])
{
    for (int i = 0; i < M; i++) {
        float s = 0.0f;
        for (int j = 0; j < N; j++)
            if (mask[i][j] > 0.5f)
                s += x[i][j];
        sum[i] = s;
    }
}
