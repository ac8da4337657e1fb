/* Makes a full symmetric matrix of its packed lower triangle. */
void unpack_lower(int n, const double *restrict p, double A[restrict n][n])
{
    int k = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++) {
            A[i][j] = p[k];
            A[j][i] = p[k++];
        }
}
