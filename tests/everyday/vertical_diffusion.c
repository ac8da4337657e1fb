/* Implicit vertical diffusion: a tridiagonal system for each column of an atmosphere. The caller lends the memory in
   which a column is worked on. */
void vertical_diffusion(int ny, int nx, int nz, double dt, double T[restrict nz][ny][nx],
                        const double K[restrict nz][ny][nx], double cp[restrict nz], double dp[restrict nz])
{
    for (int j = 0; j < ny; j++)
        for (int i = 0; i < nx; i++) {
            double b0 = 1.0 + dt * K[0][j][i];
            cp[0] = -dt * K[0][j][i] / b0;
            dp[0] = T[0][j][i] / b0;
            for (int k = 1; k < nz; k++) {
                double lo = -dt * K[k - 1][j][i];
                double up = k < nz - 1 ? -dt * K[k][j][i] : 0.0;
                double den = 1.0 - lo - up - lo * cp[k - 1];
                cp[k] = up / den;
                dp[k] = (T[k][j][i] - lo * dp[k - 1]) / den;
            }
            T[nz - 1][j][i] = dp[nz - 1];
            for (int k = nz - 2; k >= 0; k--)
                T[k][j][i] = dp[k] - cp[k] * T[k + 1][j][i];
        }
}
