#include <math.h>
void largest_below_diagonal(const float a[N][N], float largest[1])
{
    float most = 0;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < i; j++)
            most = fmaxf(most, fabsf(a[i][j]));
    largest[0] = most;
}
