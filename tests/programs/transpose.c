/* Out of place, and in place above the diagonal. */
#ifndef N
#define N 120
#endif

void transpose(const double A[restrict N][N], double B[restrict N][N], double C[restrict N][N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            B[j][i] = A[i][j];
    for (int i = 0; i < N; i++)
        for (int j = i + 1; j < N; j++) {
            double t = C[i][j];
            C[i][j] = C[j][i];
            C[j][i] = t;
        }
#pragma endscop
}
