#define MIN3(a, b, c) ((a) < (b) ? ((a) < (c) ? (a) : (c)) : ((b) < (c) ? (b) : (c)))

/* Levenshtein's distance with two rows of the table instead of all of it. */
void edit_distance_rows(const char s[M], const char t[N], int d[2][N + 1])
{
    for (int j = 0; j <= N; j++)
        d[0][j] = j;
    for (int i = 1; i <= M; i++) {
        d[i % 2][0] = i;
        for (int j = 1; j <= N; j++)
            d[i % 2][j] = MIN3(d[(i - 1) % 2][j] + 1, d[i % 2][j - 1] + 1,
                               d[(i - 1) % 2][j - 1] + (s[i - 1] != t[j - 1]));
    }
}
