/* C = A * B^T with sizes known at run time. */
void gemm_nt(int m, int n, int k, float A[restrict m][k], float B[restrict n][k], float C[restrict m][n])
{
#pragma scop
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            C[i][j] = 0;
            for (int p = 0; p < k; p++)
                C[i][j] += A[i][p] * B[j][p];
        }
#pragma endscop
}
