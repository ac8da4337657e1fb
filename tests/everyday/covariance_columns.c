typedef double data_t;

void covariance_columns(int n, int m, data_t data[n][m], data_t cov[m][m], data_t mean[m])
{
    for (int j = 0; j < m; j++) {
        mean[j] = 0.0;
        for (int i = 0; i < n; i++)
            mean[j] += data[i][j];
        mean[j] /= n;
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++)
            data[i][j] -= mean[j];
    for (int i = 0; i < m; i++)
        for (int j = i; j < m; j++) {
            data_t c = 0.0;
            for (int k = 0; k < n; k++)
                c += data[k][i] * data[k][j];
            cov[i][j] = c / (n - 1.0);
            cov[j][i] = cov[i][j];
        }
}
