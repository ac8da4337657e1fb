/* Warshall's algorithm on 0 and 1. */
#ifndef N
#define N 80
#endif

void transitive_closure(unsigned char reach[restrict N][N])
{
#pragma scop
    for (int k = 0; k < N; k++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                reach[i][j] |= reach[i][k] & reach[k][j];
#pragma endscop
}
