/* Conway's game of life for T generations. */
#ifndef T
#define T 6
#endif
#ifndef N
#define N 40
#endif

void life(unsigned char now[restrict N][N], unsigned char next[restrict N][N])
{
#pragma scop
    for (int t = 0; t < T; t++) {
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++) {
                int near = now[i - 1][j - 1] + now[i - 1][j] + now[i - 1][j + 1] + now[i][j - 1] + now[i][j + 1]
                           + now[i + 1][j - 1] + now[i + 1][j] + now[i + 1][j + 1];
                next[i][j] = near == 3 || (near == 2 && now[i][j]) ? 1 : 0;
            }
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                now[i][j] = next[i][j];
    }
#pragma endscop
}
