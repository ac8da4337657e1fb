/* Product of matrices of complex numbers, real and imaginary parts in the last dimension. */
#ifndef N
#define N 60
#endif

void complex_gemm(const double A[restrict N][N][2], const double B[restrict N][N][2], double C[restrict N][N][2])
{
#pragma scop
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++) {
                C[i][j][0] += A[i][k][0] * B[k][j][0] - A[i][k][1] * B[k][j][1];
                C[i][j][1] += A[i][k][0] * B[k][j][1] + A[i][k][1] * B[k][j][0];
            }
#pragma endscop
}
