/* Tridiagonal systems, one in each column. */
#ifndef M
#define M 60
#endif
#ifndef N
#define N 70
#endif

void thomas(const double a[restrict M][N], double b[restrict M][N], const double c[restrict M][N], double d[restrict M][N])
{
#pragma scop
    for (int j = 0; j < N; j++) {
        for (int i = 1; i < M; i++) {
            double w = a[i][j] / b[i - 1][j];
            b[i][j] -= w * c[i - 1][j];
            d[i][j] -= w * d[i - 1][j];
        }
        d[M - 1][j] /= b[M - 1][j];
        for (int i = M - 2; i >= 0; i--)
            d[i][j] = (d[i][j] - c[i][j] * d[i + 1][j]) / b[i][j];
    }
#pragma endscop
}
