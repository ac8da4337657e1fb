void lu_in_place(int n, double a[n][n])
{
    int i, j, k;
    for (k = 0; k < n; k++) {
        for (i = k + 1; i < n; i++)
            a[i][k] /= a[k][k];
        for (i = k + 1; i < n; i++)
            for (j = k + 1; j < n; j++)
                a[i][j] -= a[i][k] * a[k][j];
    }
}
