/* RNA folding: the most base pairs in every interval. */
#ifndef N
#define N 80
#endif

#define MAX(a, b) ((a) >= (b) ? (a) : (b))
#define MATCH(a, b) ((a) + (b) == 3 ? 1 : 0)

void nussinov(const int seq[restrict N], int table[restrict N][N])
{
#pragma scop
    for (int i = N - 1; i >= 0; i--)
        for (int j = i + 1; j < N; j++) {
            table[i][j] = MAX(table[i][j], table[i][j - 1]);
            if (i + 1 < N)
                table[i][j] = MAX(table[i][j], table[i + 1][j]);
            if (i + 1 < N) {
                if (i < j - 1)
                    table[i][j] = MAX(table[i][j], table[i + 1][j - 1] + MATCH(seq[i], seq[j]));
                else
                    table[i][j] = MAX(table[i][j], table[i + 1][j - 1]);
            }
            for (int k = i + 1; k < j; k++)
                table[i][j] = MAX(table[i][j], table[i][k] + table[k + 1][j]);
        }
#pragma endscop
}
