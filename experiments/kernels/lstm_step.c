/* One step of an LSTM on a batch: the gates of input, forgetting, cell and output next to each other in columns. */
#include <math.h>

void lstm(const float X[restrict B][I], const float H[restrict B][N], const float C[restrict B][N],
          const float W[restrict I][4 * N], const float U[restrict N][4 * N], const float b[restrict 4 * N],
          float cell[restrict B][N], float Y[restrict B][N])
{
    static float g[B][4 * N];
#pragma scop
    for (int i = 0; i < B; i++)
        for (int j = 0; j < 4 * N; j++) {
            float s = b[j];
            for (int k = 0; k < I; k++)
                s += X[i][k] * W[k][j];
            for (int k = 0; k < N; k++)
                s += H[i][k] * U[k][j];
            g[i][j] = s;
        }
    for (int i = 0; i < B; i++)
        for (int j = 0; j < N; j++) {
            float in = 1.0f / (1.0f + expf(-g[i][j])), forget = 1.0f / (1.0f + expf(-g[i][N + j]));
            float out = 1.0f / (1.0f + expf(-g[i][3 * N + j]));
            float c = forget * C[i][j] + in * tanhf(g[i][2 * N + j]);
            cell[i][j] = c;
            Y[i][j] = out * tanhf(c);
        }
#pragma endscop
}
