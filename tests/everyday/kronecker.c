void kronecker(const double A[M][N], const double B[P][Q], double K[M * P][N * Q])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < P; k++)
                for (int l = 0; l < Q; l++)
                    K[i * P + k][j * Q + l] = A[i][j] * B[k][l];
}
