/* Solves L * X = B in place for many right-hand sides. */
#ifndef M
#define M 120
#endif
#ifndef N
#define N 120
#endif

void trsm(const double L[restrict M][M], double B[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++) {
        for (int k = 0; k < i; k++)
            for (int j = 0; j < N; j++)
                B[i][j] -= L[i][k] * B[k][j];
        for (int j = 0; j < N; j++)
            B[i][j] /= L[i][i];
    }
#pragma endscop
}
