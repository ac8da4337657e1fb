/* Two functions with a region each, the first used by the second on local data. */
#ifndef N
#define N 60
#endif

static void scale_rows(double A[restrict N][N], const double s[restrict N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            A[i][j] *= s[i];
#pragma endscop
}

void two_regions(double A[restrict N][N], double B[restrict N][N], double norm[restrict N])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        norm[i] = 0.0;
        for (int j = 0; j < N; j++)
            norm[i] += A[i][j] * A[i][j];
    }
#pragma endscop
    scale_rows(A, norm);
#pragma scop
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++)
                B[i][j] += A[i][k] * A[j][k];
#pragma endscop
}
