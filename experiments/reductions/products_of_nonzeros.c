void products_of_nonzeros(const double a[M][N], double out[M])
{
    for (int i = 0; i < M; i++) {
        double p = 1;
        for (int j = 0; j < N; j++)
            p *= a[i][j] != 0 ? (a[i][j] > 0 ? 1.0 : -1.0) : 1.0;
        out[i] = p;
    }
}
