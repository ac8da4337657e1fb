/* Sums that neighbours share are kept in two rows, which every row of the result fills anew. */
void neighbours_in_rows(int planes, int rows, int columns, const double u[restrict planes][rows][columns],
                        double r[restrict planes][rows][columns], const double weight[restrict 3])
{
    double edges[columns], corners[columns];
    for (int k = 1; k < planes - 1; k++)
        for (int j = 1; j < rows - 1; j++) {
            for (int i = 0; i < columns; i++) {
                edges[i] = u[k][j - 1][i] + u[k][j + 1][i] + u[k - 1][j][i] + u[k + 1][j][i];
                corners[i] = u[k - 1][j - 1][i] + u[k - 1][j + 1][i] + u[k + 1][j - 1][i] + u[k + 1][j + 1][i];
            }
            for (int i = 1; i < columns - 1; i++)
                r[k][j][i] = weight[0] * u[k][j][i] - weight[1] * (corners[i] + edges[i - 1] + edges[i + 1])
                             - weight[2] * (corners[i - 1] + corners[i + 1]);
        }
}
