/* Two products of one input, of which the results are added up. */
void f(const float X[restrict M][K], const float U[restrict K][N], const float V[restrict K][N],
       float Y[restrict M][N])
{
    static float a[M][N], b[M][N];
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = 0.0f;
            for (int k = 0; k < K; k++)
                a[i][j] += X[i][k] * U[k][j];
        }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            b[i][j] = 0.0f;
            for (int k = 0; k < K; k++)
                b[i][j] += X[i][k] * V[k][j];
        }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            Y[i][j] = (a[i][j] > 0.0f ? a[i][j] : 0.0f) + b[i][j];
#pragma endscop
}
