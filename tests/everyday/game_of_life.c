#include <string.h>

enum { DEAD, ALIVE };

/* Four generations on a board whose edge stays dead. */
void game_of_life(unsigned char board[N][N], unsigned char next[N][N])
{
    memset(next, DEAD, sizeof(unsigned char) * N * N);
    for (int step = 0; step < 4; step++) {
        for (int y = 1; y < N - 1; y++)
            for (int x = 1; x < N - 1; x++) {
                int alive = -(board[y][x] & 1);
                for (int dy = -1; dy <= 1; dy++)
                    for (int dx = -1; dx <= 1; dx++)
                        alive += board[y + dy][x + dx] & 1;
                next[y][x] = (alive == 3 || (alive == 2 && board[y][x] == ALIVE)) ? ALIVE : DEAD;
            }
        memcpy(board, next, sizeof(unsigned char) * N * N);
    }
}
