/* Gravitational accelerations of all pairs. */
#include <math.h>

#ifndef N
#define N 100
#endif

void n_body(const float pos[restrict N][3], const float mass[restrict N], float acc[restrict N][3])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        for (int d = 0; d < 3; d++)
            acc[i][d] = 0.0f;
        for (int j = 0; j < N; j++) {
            float dx = pos[j][0] - pos[i][0], dy = pos[j][1] - pos[i][1], dz = pos[j][2] - pos[i][2];
            float r2 = dx * dx + dy * dy + dz * dz + 0.01f;
            float w = mass[j] / (r2 * sqrtf(r2));
            acc[i][0] += w * dx;
            acc[i][1] += w * dy;
            acc[i][2] += w * dz;
        }
    }
#pragma endscop
}
