#include <math.h>

void gemm_larger_of_two(const float A[M][K], const float B[K][N], const float D[K][N], float C[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0.0f, t = 0.0f;
            for (int k = 0; k < K; k++) {
                s += A[i][k] * B[k][j];
                t += A[i][k] * D[k][j];
            }
            C[i][j] = fmaxf(s, t);
        }
}
