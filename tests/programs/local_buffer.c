/* An array declared in the region, filled and used in each outer iteration. */
#ifndef M
#define M 50
#endif
#ifndef N
#define N 60
#endif

void local_buffer(const double A[restrict M][N], double out[restrict M][N])
{
#pragma scop
    for (int i = 0; i < M; i++) {
        double row[N];
        for (int j = 0; j < N; j++)
            row[j] = A[i][N - 1 - j] * 2.0;
        for (int j = 1; j < N - 1; j++)
            out[i][j] = row[j - 1] + row[j] + row[j + 1];
    }
#pragma endscop
}
