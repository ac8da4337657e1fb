void column_products(const float x[M][N], float product[N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            product[j] *= x[i][j];
}
