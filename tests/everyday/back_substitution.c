/* Solves U x = b for an upper triangular U, from the last row upwards. */
void back_substitution(unsigned n, double U[n][n], double b[n], double x[n])
{
    for (unsigned i = n; i-- > 0;) {
        double s = b[i];
        for (unsigned j = i + 1; j < n; j++)
            s -= U[i][j] * x[j];
        x[i] = s / U[i][i];
    }
}
