/* G = (A * B) * (C * D). */
#ifndef NI
#define NI 90
#endif
#ifndef NJ
#define NJ 90
#endif
#ifndef NK
#define NK 90
#endif
#ifndef NL
#define NL 90
#endif
#ifndef NM
#define NM 90
#endif

void mm3(double E[restrict NI][NJ], const double A[restrict NI][NK], const double B[restrict NK][NJ],
         double F[restrict NJ][NL], const double C[restrict NJ][NM], const double D[restrict NM][NL],
         double G[restrict NI][NL])
{
#pragma scop
#pragma polydl live_out(G)
    for (int i = 0; i < NI; i++)
        for (int j = 0; j < NJ; j++) {
            E[i][j] = 0.0;
            for (int k = 0; k < NK; k++)
                E[i][j] += A[i][k] * B[k][j];
        }
    for (int i = 0; i < NJ; i++)
        for (int j = 0; j < NL; j++) {
            F[i][j] = 0.0;
            for (int k = 0; k < NM; k++)
                F[i][j] += C[i][k] * D[k][j];
        }
    for (int i = 0; i < NI; i++)
        for (int j = 0; j < NL; j++) {
            G[i][j] = 0.0;
            for (int k = 0; k < NJ; k++)
                G[i][j] += E[i][k] * F[k][j];
        }
#pragma endscop
}
