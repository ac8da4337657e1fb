void max_plus_product(const float a[M][K], const float b[K][N], float c[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < K; k++)
                c[i][j] = a[i][k] + b[k][j] > c[i][j] ? a[i][k] + b[k][j] : c[i][j];
}
