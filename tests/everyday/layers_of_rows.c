/* Two layers of a network, a row of the input at a time: what is between them is in an array of the loop. */
#include <math.h>
#ifndef M
#define M 12
#endif
#ifndef N
#define N 9
#endif
#ifndef H
#define H 10
#endif
#ifndef K
#define K 40
#endif

void layers_of_rows(const float x[restrict M][K], const float w[restrict K][H], const float b[restrict H],
                    const float v[restrict H][N], float y[restrict M][N])
{
    for (int i = 0; i < M; i++) {
        float h[H];
        for (int j = 0; j < H; j++) {
            float s = b[j];
            for (int k = 0; k < K; k++)
                s += x[i][k] * w[k][j];
            h[j] = s > 0 ? s : 0;
        }
        for (int j = 0; j < N; j++) {
            float s = 0;
            for (int k = 0; k < H; k++)
                s += h[k] * v[k][j];
            y[i][j] = 1 / (1 + expf(-s));
        }
    }
}
