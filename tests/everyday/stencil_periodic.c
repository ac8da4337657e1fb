void stencil_periodic(const double u[N][N], double v[N][N])
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            v[i][j] = 0.25 * (u[(i + 1) % N][j] + u[(i + N - 1) % N][j] + u[i][(j + 1) % N] + u[i][(j + N - 1) % N]);
}
