/* Squeeze and excite: the mean of each plane, two small layers, and planes scaled by what comes out. */
#include <math.h>

void f(const float X[restrict H][N][M], const float A[restrict N][L], const float B[restrict L][N],
       float Y[restrict H][N][M])
{
    static float mean[H][N], a[H][L], s[H][N];
#pragma scop
    for (int h = 0; h < H; h++)
        for (int c = 0; c < N; c++) {
            float sum = 0.0f;
            for (int i = 0; i < M; i++)
                sum += X[h][c][i];
            mean[h][c] = sum / M;
        }
    for (int h = 0; h < H; h++)
        for (int l = 0; l < L; l++) {
            float sum = 0.0f;
            for (int c = 0; c < N; c++)
                sum += mean[h][c] * A[c][l];
            a[h][l] = sum > 0.0f ? sum : 0.0f;
        }
    for (int h = 0; h < H; h++)
        for (int c = 0; c < N; c++) {
            float sum = 0.0f;
            for (int l = 0; l < L; l++)
                sum += a[h][l] * B[l][c];
            s[h][c] = 1.0f / (1.0f + expf(-sum));
        }
    for (int h = 0; h < H; h++)
        for (int c = 0; c < N; c++)
            for (int i = 0; i < M; i++)
                Y[h][c][i] = X[h][c][i] * s[h][c];
#pragma endscop
}
