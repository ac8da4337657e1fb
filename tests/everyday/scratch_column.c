/* Continued fractions down the columns of a matrix; the caller lends the memory for one of them. */
void scratch_column(int nx, int nz, double T[restrict nz][nx], double cp[restrict nz])
{
    for (int i = 0; i < nx; i++) {
        cp[0] = T[0][i];
        for (int k = 1; k < nz; k++)
            cp[k] = 1.0 / (2.0 + cp[k - 1] * T[k][i]);
        for (int k = 0; k < nz; k++)
            T[k][i] = cp[k];
    }
}
