/* Matricised tensor times Khatri-Rao product. */
#ifndef I
#define I 30
#endif
#ifndef J
#define J 20
#endif
#ifndef K
#define K 22
#endif
#ifndef R
#define R 16
#endif

void mttkrp(const double X[restrict I][J][K], const double B[restrict J][R], const double C[restrict K][R],
            double A[restrict I][R])
{
#pragma scop
    for (int i = 0; i < I; i++)
        for (int j = 0; j < J; j++)
            for (int k = 0; k < K; k++)
                for (int r = 0; r < R; r++)
                    A[i][r] += X[i][j][k] * B[j][r] * C[k][r];
#pragma endscop
}
