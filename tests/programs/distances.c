/* Squared distances between two sets of points, and each point's least. */
#include <math.h>

#ifndef M
#define M 60
#endif
#ifndef N
#define N 70
#endif
#ifndef D
#define D 10
#endif

void distances(const double P[restrict M][D], const double Q[restrict N][D], double dist[restrict M][N],
               double nearest[restrict M])
{
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            dist[i][j] = 0.0;
            for (int k = 0; k < D; k++)
                dist[i][j] += (P[i][k] - Q[j][k]) * (P[i][k] - Q[j][k]);
        }
    for (int i = 0; i < M; i++) {
        nearest[i] = dist[i][0];
        for (int j = 1; j < N; j++)
            nearest[i] = fmin(nearest[i], dist[i][j]);
    }
#pragma endscop
}
