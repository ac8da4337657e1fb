#include <math.h>

void manhattan_distances(const double x[M][DIM], const double y[N][DIM], double out[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            out[i][j] = 0.0;
            for (int d = 0; d < DIM; d++)
                out[i][j] += fabs(x[i][d] - y[j][d]);
        }
}
