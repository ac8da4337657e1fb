void column_peaks(int rows, int columns, const double x[rows][columns], double peak[columns])
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            peak[j] = x[i][j] > peak[j] ? x[i][j] : peak[j];
}
