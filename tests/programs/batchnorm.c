/* Normalisation over batch and space, then ReLU. */
#include <math.h>

#ifndef B
#define B 6
#endif
#ifndef C
#define C 10
#endif
#ifndef H
#define H 14
#endif

void batchnorm(float x[restrict B][C][H][H], float mean[restrict C], float var[restrict C], const float gain[restrict C],
               const float bias[restrict C])
{
#pragma scop
    for (int c = 0; c < C; c++) {
        mean[c] = 0.0f;
        var[c] = 0.0f;
        for (int n = 0; n < B; n++)
            for (int y = 0; y < H; y++)
                for (int z = 0; z < H; z++)
                    mean[c] += x[n][c][y][z];
        mean[c] /= B * H * H;
        for (int n = 0; n < B; n++)
            for (int y = 0; y < H; y++)
                for (int z = 0; z < H; z++)
                    var[c] += (x[n][c][y][z] - mean[c]) * (x[n][c][y][z] - mean[c]);
        var[c] /= B * H * H;
    }
    for (int n = 0; n < B; n++)
        for (int c = 0; c < C; c++)
            for (int y = 0; y < H; y++)
                for (int z = 0; z < H; z++) {
                    float v = (x[n][c][y][z] - mean[c]) / sqrtf(var[c] + 1e-5f) * gain[c] + bias[c];
                    x[n][c][y][z] = v > 0.0f ? v : 0.0f;
                }
#pragma endscop
}
