void ell_matvec(const int col[M][R], const double val[M][R], const double x[N], double y[M])
{
    for (int i = 0; i < M; i++) {
        double sum = 0.0;
        for (int k = 0; k < R; k++)
            sum += val[i][k] * x[col[i][k]];
        y[i] = sum;
    }
}
