/* A mixture of two experts: each a layer with a ReLU, weighted by a gate of each row. */
#include <math.h>

void f(const float X[restrict M][K], const float G[restrict K], const float A[restrict K][N],
       const float B[restrict K][N], const float C[restrict N][L], const float D[restrict N][L],
       float Y[restrict M][L])
{
    static float gate[M], a[M][N], b[M][N];
#pragma scop
    for (int i = 0; i < M; i++) {
        float s = 0.0f;
        for (int k = 0; k < K; k++)
            s += X[i][k] * G[k];
        gate[i] = 1.0f / (1.0f + expf(-s));
    }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0.0f;
            for (int k = 0; k < K; k++)
                s += X[i][k] * A[k][j];
            a[i][j] = (s > 0.0f ? s : 0.0f) * gate[i];
        }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0.0f;
            for (int k = 0; k < K; k++)
                s += X[i][k] * B[k][j];
            b[i][j] = (s > 0.0f ? s : 0.0f) * (1.0f - gate[i]);
        }
    for (int i = 0; i < M; i++)
        for (int l = 0; l < L; l++) {
            float s = 0.0f;
            for (int j = 0; j < N; j++)
                s += a[i][j] * C[j][l];
            for (int j = 0; j < N; j++)
                s += b[i][j] * D[j][l];
            Y[i][l] = s;
        }
#pragma endscop
}
