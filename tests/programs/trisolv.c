/* Forward substitution. */
#ifndef N
#define N 300
#endif

void trisolv(const double L[restrict N][N], double x[restrict N], const double b[restrict N])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        x[i] = b[i];
        for (int j = 0; j < i; j++)
            x[i] -= L[i][j] * x[j];
        x[i] = x[i] / L[i][i];
    }
#pragma endscop
}
