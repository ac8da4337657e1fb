/* A gated perceptron (SwiGLU): silu(X A) * (X B), and a product with C. */
#include <math.h>

void f(const float X[restrict M][K], const float A[restrict K][N], const float B[restrict K][N],
       const float C[restrict N][L], float Y[restrict M][L])
{
    static float a[M][N], b[M][N], z[M][N];
#pragma scop
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            a[i][j] = 0.0f;
            for (int k = 0; k < K; k++)
                a[i][j] += X[i][k] * A[k][j];
        }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            b[i][j] = 0.0f;
            for (int k = 0; k < K; k++)
                b[i][j] += X[i][k] * B[k][j];
        }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++)
            z[i][j] = a[i][j] / (1.0f + expf(-a[i][j])) * b[i][j];
    for (int i = 0; i < M; i++)
        for (int l = 0; l < L; l++) {
            Y[i][l] = 0.0f;
            for (int j = 0; j < N; j++)
                Y[i][l] += z[i][j] * C[j][l];
        }
#pragma endscop
}
