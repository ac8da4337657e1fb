/* Copies the upper triangle of a symmetric matrix into packed storage, row by row. */
void pack_upper(int n, const double A[restrict n][n], double *restrict p)
{
    int k = 0;
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++)
            p[k++] = A[i][j];
}
