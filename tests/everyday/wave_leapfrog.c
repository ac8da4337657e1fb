/* One step of u_tt = c^2 (u_xx + u_yy): the field before last is overwritten by the next one. */
void wave_leapfrog(int nx, int ny, float u[nx][ny], float old[nx][ny], float c2)
{
    for (int i = 1; i < nx - 1; i++)
        for (int j = 1; j < ny - 1; j++)
            old[i][j] = 2 * u[i][j] - old[i][j]
                      + c2 * (u[i + 1][j] + u[i - 1][j] + u[i][j + 1] + u[i][j - 1] - 4 * u[i][j]);
}
