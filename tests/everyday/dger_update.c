void dger_update(int m, int n, double alpha, double x[restrict m], double y[restrict n], double A[restrict m][n])
{
    for (int i = 0; i < m; i++) {
        const double ax = alpha * x[i];
        double *row = A[i];
        for (int j = 0; j < n; j++)
            row[j] += ax * y[j];
    }
}
