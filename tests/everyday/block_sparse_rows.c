/* y = A x in 4 x 4 blocks, two in each row: sums in an array of the row's own, that begins with zeros. */
void block_sparse_rows(const double block[N][2][4][4], const double x[N + 1][4], double y[N][4])
{
    for (int i = 0; i < N; i++) {
        double sum[4] = {0};
        for (int k = 0; k < 2; k++)
            for (int r = 0; r < 4; r++)
                for (int c = 0; c < 4; c++)
                    sum[r] += block[i][k][r][c] * x[i + k][c];
        for (int r = 0; r < 4; r++)
            y[i][r] = sum[r];
    }
}
