/* Gauss-Seidel on the red and then on the black points. */
void red_black(double u[N][N])
{
    for (int colour = 0; colour < 2; colour++)
        for (int i = 1; i < N - 1; i++)
            for (int j = 1 + ((i + colour) & 1); j < N - 1; j += 2)
                u[i][j] = 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1]);
}
