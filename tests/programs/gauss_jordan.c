/* Inverse of a matrix by elimination above and below. */
#ifndef N
#define N 60
#endif

void gauss_jordan(double A[restrict N][N], double B[restrict N][N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            B[i][j] = i == j ? 1.0 : 0.0;
    for (int k = 0; k < N; k++) {
        double pivot = 1.0 / A[k][k];
        for (int j = 0; j < N; j++) {
            A[k][j] *= pivot;
            B[k][j] *= pivot;
        }
        for (int i = 0; i < N; i++)
            if (i != k) {
                double f = A[i][k];
                for (int j = 0; j < N; j++) {
                    A[i][j] -= f * A[k][j];
                    B[i][j] -= f * B[k][j];
                }
            }
    }
#pragma endscop
}
