#include <math.h>

void chebyshev_distances(const float x[M][DIM], const float y[N][DIM], float out[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float most = 0.0f;
            for (int d = 0; d < DIM; d++) {
                float apart = fabsf(x[i][d] - y[j][d]);
                most = apart > most ? apart : most;
            }
            out[i][j] = most;
        }
}
