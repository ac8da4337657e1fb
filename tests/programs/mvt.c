/* A product with a matrix and one with its transpose. */
#ifndef N
#define N 300
#endif

void mvt(double x1[restrict N], double x2[restrict N], const double y1[restrict N], const double y2[restrict N],
         const double A[restrict N][N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            x1[i] += A[i][j] * y1[j];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            x2[i] += A[j][i] * y2[j];
#pragma endscop
}
