/* Softmax of every row. */
#include <math.h>

#ifndef M
#define M 60
#endif
#ifndef N
#define N 80
#endif

void softmax(const float in[restrict M][N], float out[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++) {
        float most = in[i][0];
        for (int j = 1; j < N; j++)
            most = in[i][j] > most ? in[i][j] : most;
        float sum = 0.0f;
        for (int j = 0; j < N; j++) {
            out[i][j] = expf(in[i][j] - most);
            sum += out[i][j];
        }
        for (int j = 0; j < N; j++)
            out[i][j] /= sum;
    }
#pragma endscop
}
