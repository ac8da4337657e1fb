/* x = L * x in place, from the last row up. */
#ifndef N
#define N 300
#endif

void trmv(const double L[restrict N][N], double x[restrict N])
{
#pragma scop
    for (int i = N - 1; i >= 0; i--) {
        x[i] *= L[i][i];
        for (int j = 0; j < i; j++)
            x[i] += L[i][j] * x[j];
    }
#pragma endscop
}
