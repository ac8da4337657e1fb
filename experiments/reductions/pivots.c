#include <math.h>
void pivots(const double a[N][N], int at[N])
{
    for (int k = 0; k < N; k++) {
        double best = -1;
        int r = k;
        for (int j = k; j < N; j++)
            if (fabs(a[k][j]) > best) {
                best = fabs(a[k][j]);
                r = j;
            }
        at[k] = r;
    }
}
