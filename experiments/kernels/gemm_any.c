/* C = A * B, row-major, for any size. */
void matmul(int m, int n, int k, const float A[restrict m][k], const float B[restrict k][n], float C[restrict m][n])
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            C[i][j] = 0;
            for (int p = 0; p < k; p++)
                C[i][j] += A[i][p] * B[p][j];
        }
}
