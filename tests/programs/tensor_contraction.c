/* T(a,b,c,d) = sum over e, f of X(a,e,b,f) * Y(d,f,c,e). */
#ifndef A
#define A 8
#endif
#ifndef B
#define B 9
#endif
#ifndef C
#define C 7
#endif
#ifndef D
#define D 10
#endif
#ifndef E
#define E 6
#endif
#ifndef F
#define F 8
#endif

void tensor_contraction(const double X[restrict A][E][B][F], const double Y[restrict D][F][C][E],
                        double Z[restrict A][B][C][D])
{
#pragma scop
    for (int a = 0; a < A; a++)
        for (int b = 0; b < B; b++)
            for (int c = 0; c < C; c++)
                for (int d = 0; d < D; d++)
                    for (int e = 0; e < E; e++)
                        for (int f = 0; f < F; f++)
                            Z[a][b][c][d] += X[a][e][b][f] * Y[d][f][c][e];
#pragma endscop
}
