void row_product(const double x[M][N], double out[M])
{
    for (int i = 0; i < M; i++) {
        double p = 1.0;
        for (int j = 0; j < N; j++)
            p *= 1.0 + x[i][j] * 0.001;
        out[i] = p;
    }
}
