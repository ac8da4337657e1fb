void heat_periodic(double u[N][N], double v[N][N])
{
    for (int t = 0; t < T; t++) {
        for (int i = 0; i < N; i++) {
            int up = i == 0 ? N - 1 : i - 1;
            int down = i == N - 1 ? 0 : i + 1;
            for (int j = 0; j < N; j++) {
                int left = j == 0 ? N - 1 : j - 1;
                int right = j == N - 1 ? 0 : j + 1;
                v[i][j] = 0.5 * u[i][j] + 0.125 * (u[up][j] + u[down][j] + u[i][left] + u[i][right]);
            }
        }
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                u[i][j] = v[i][j];
    }
}
