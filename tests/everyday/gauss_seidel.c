void gauss_seidel(double u[N + 2][N + 2], const double f[N + 2][N + 2], double h2)
{
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (int i = 1; i <= N; i++)
            for (int j = 1; j <= N; j++)
                u[i][j] = 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - h2 * f[i][j]);
}
