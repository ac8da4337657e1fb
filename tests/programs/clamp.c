/* Values outside a range are replaced and counted: conditions on data. */
#ifndef M
#define M 60
#endif
#ifndef N
#define N 70
#endif

void clamp(const double low[restrict M], double A[restrict M][N], int changed[restrict M], double scaled[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++)
        changed[i] = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            if (A[i][j] < low[i]) {
                A[i][j] = low[i];
                changed[i]++;
            } else if (A[i][j] > 2 + low[i])
                A[i][j] = 2 + low[i];
        }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            scaled[i][j] = 2 * A[i][j] + i - j;
#pragma endscop
}
