#include <math.h>

void gemm_fmaf(const float A[M][K], const float B[K][N], float C[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0.0f;
            for (int k = 0; k < K; k++)
                s = fmaf(A[i][k], B[k][j], s);
            C[i][j] = s;
        }
}
