/* Product of matrices that are given as plain pointers. */
void linear_layout(int m, int n, int k, const double *restrict A, const double *restrict B, double *restrict C)
{
#pragma scop
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0.0;
            for (int p = 0; p < k; p++)
                sum += A[i * k + p] * B[p * n + j];
            C[i * n + j] = sum;
        }
#pragma endscop
}
