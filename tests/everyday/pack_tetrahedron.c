/* Keeps one of the six equal elements of a symmetric array of three dimensions. */
void pack_tetrahedron(int n, const float A[restrict n][n][n], float *restrict p)
{
    int c = 0;
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            for (int k = 0; k <= j; k++)
                p[c++] = A[i][j][k];
}
