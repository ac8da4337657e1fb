/* Factorisation of a symmetric matrix without square roots. */
#ifndef N
#define N 100
#endif

void ldlt(double A[restrict N][N], double d[restrict N])
{
#pragma scop
    for (int j = 0; j < N; j++) {
        d[j] = A[j][j];
        for (int k = 0; k < j; k++)
            d[j] -= A[j][k] * A[j][k] * d[k];
        for (int i = j + 1; i < N; i++) {
            for (int k = 0; k < j; k++)
                A[i][j] -= A[i][k] * A[j][k] * d[k];
            A[i][j] /= d[j];
        }
    }
#pragma endscop
}
