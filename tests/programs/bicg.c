/* The two products of the BiCG solver. */
#ifndef M
#define M 300
#endif
#ifndef N
#define N 300
#endif

void bicg(const double A[restrict N][M], double s[restrict M], double q[restrict N], const double p[restrict M],
          const double r[restrict N])
{
#pragma scop
    for (int i = 0; i < M; i++)
        s[i] = 0;
    for (int i = 0; i < N; i++) {
        q[i] = 0.0;
        for (int j = 0; j < M; j++) {
            s[j] += r[i] * A[i][j];
            q[i] += A[i][j] * p[j];
        }
    }
#pragma endscop
}
