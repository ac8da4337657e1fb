/* Seven-point Jacobi on global arrays. */
#ifndef T
#define T 6
#endif
#ifndef N
#define N 20
#endif

float A[N][N][N], B[N][N][N];

void jacobi_3d(void)
{
#pragma scop
    for (int t = 0; t < T; t++) {
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                for (int k = 1; k < N - 1; k++)
                    B[i][j][k] = (A[i][j][k] + A[i - 1][j][k] + A[i + 1][j][k] + A[i][j - 1][k] + A[i][j + 1][k]
                                  + A[i][j][k - 1] + A[i][j][k + 1]) * 0.14f;
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                for (int k = 1; k < N - 1; k++)
                    A[i][j][k] = (B[i][j][k] + B[i - 1][j][k] + B[i + 1][j][k] + B[i][j - 1][k] + B[i][j + 1][k]
                                  + B[i][j][k - 1] + B[i][j][k + 1]) * 0.14f;
    }
#pragma endscop
}
