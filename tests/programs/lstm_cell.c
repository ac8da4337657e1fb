/* LSTM over T steps: four gates, cell and output. */
#include <math.h>

#ifndef T
#define T 6
#endif
#ifndef NI
#define NI 24
#endif
#ifndef NH
#define NH 28
#endif

static float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

void lstm_cell(const float x[restrict T][NI], const float U[restrict 4][NH][NI], const float Wh[restrict 4][NH][NH],
               const float b[restrict 4][NH], float h[restrict T + 1][NH], float c[restrict T + 1][NH])
{
    float g[4][NH];
#pragma scop
    for (int t = 0; t < T; t++) {
        for (int q = 0; q < 4; q++)
            for (int s = 0; s < NH; s++) {
                g[q][s] = b[q][s];
                for (int p = 0; p < NI; p++)
                    g[q][s] += U[q][s][p] * x[t][p];
                for (int p = 0; p < NH; p++)
                    g[q][s] += Wh[q][s][p] * h[t][p];
            }
        for (int s = 0; s < NH; s++) {
            c[t + 1][s] = sigmoid(g[1][s]) * c[t][s] + sigmoid(g[0][s]) * tanhf(g[2][s]);
            h[t + 1][s] = sigmoid(g[3][s]) * tanhf(c[t + 1][s]);
        }
    }
#pragma endscop
}
