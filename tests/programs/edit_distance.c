/* Levenshtein distance with a pure function for the minimum. */
#ifndef N
#define N 100
#endif
#ifndef M
#define M 120
#endif

static int least(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

void edit_distance(const int a[restrict N], const int b[restrict M], int D[restrict N + 1][M + 1])
{
#pragma scop
    for (int i = 0; i <= N; i++)
        D[i][0] = i;
    for (int j = 1; j <= M; j++)
        D[0][j] = j;
    for (int i = 1; i <= N; i++)
        for (int j = 1; j <= M; j++)
            D[i][j] = least(D[i - 1][j] + 1, D[i][j - 1] + 1, D[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
#pragma endscop
}
