/* Longest common subsequence. */
#ifndef N
#define N 100
#endif
#ifndef M
#define M 120
#endif

void lcs(const int a[restrict N], const int b[restrict M], int L[restrict N + 1][M + 1])
{
#pragma scop
    for (int i = 0; i <= N; i++)
        L[i][0] = 0;
    for (int j = 0; j <= M; j++)
        L[0][j] = 0;
    for (int i = 1; i <= N; i++)
        for (int j = 1; j <= M; j++)
            L[i][j] = a[i - 1] == b[j - 1] ? L[i - 1][j - 1] + 1
                                           : (L[i - 1][j] > L[i][j - 1] ? L[i - 1][j] : L[i][j - 1]);
#pragma endscop
}
