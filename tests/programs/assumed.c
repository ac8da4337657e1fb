/* What is known of parameters decides which branch runs. */
void assumed(int n, int t, double A[restrict n][n], double B[restrict n])
{
#pragma scop
#pragma polydl assume(t >= 1 && n > 2 * t)
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            if (i < t)
                A[i][j] = 2 * A[i][j];
            else if (i >= n - t)
                A[i][j] = 3 * A[i][j] + 1;
            else if (j < t || j > n - t)
                A[i][j] -= 1;
            else
                A[i][j] = -A[i][j];
    for (int i = t; i < n - t; i++)
        B[i] = A[i - t][i] + A[i + t][i];
#pragma endscop
}
