/* Product into a matrix kept in blocks: floor and remainder of the subscripts. */
#ifndef N
#define N 64
#endif
#ifndef B
#define B 8
#endif

void blocked_layout(const float X[restrict N][N], const float Y[restrict N][N], float Z[restrict N / B][N / B][B][B])
{
#pragma scop
    for (int i = 0; i < N / B * B; i++)
        for (int j = 0; j < N / B * B; j++)
            for (int k = 0; k < N; k++)
                Z[i / B][j / B][i % B][j % B] += X[i][k] * Y[k][j];
#pragma endscop
}
