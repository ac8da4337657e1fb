#include <stdlib.h>
void largest_change(const unsigned char a[M][N], const unsigned char b[M][N], int change[1])
{
    int most = 0;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            int d = abs(a[i][j] - b[i][j]);
            if (d > most)
                most = d;
        }
    change[0] = most;
}
