/* Multiresolution kernel: a product along the last dimension, in place. */
#ifndef NR
#define NR 20
#endif
#ifndef NQ
#define NQ 20
#endif
#ifndef NP
#define NP 30
#endif

void doitgen(double A[restrict NR][NQ][NP], const double C4[restrict NP][NP])
{
    double sum[NP];
#pragma scop
    for (int r = 0; r < NR; r++)
        for (int q = 0; q < NQ; q++) {
            for (int p = 0; p < NP; p++) {
                sum[p] = 0.0;
                for (int s = 0; s < NP; s++)
                    sum[p] += A[r][q][s] * C4[s][p];
            }
            for (int p = 0; p < NP; p++)
                A[r][q][p] = sum[p];
        }
#pragma endscop
}
