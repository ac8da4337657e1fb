#include <math.h>
void saddle(const float a[M][N], float out[1])
{
    float best = -INFINITY;
    for (int i = 0; i < M; i++) {
        float low = INFINITY;
        for (int j = 0; j < N; j++)
            low = fminf(low, a[i][j]);
        best = fmaxf(best, low);
    }
    out[0] = best;
}
