/* y = A * x with a band matrix in band storage. */
#ifndef N
#define N 1000
#endif
#ifndef KL
#define KL 5
#endif
#ifndef KU
#define KU 8
#endif

#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define MIN(a, b) ((a) < (b) ? (a) : (b))

void gbmv(const double A[restrict N][KL + KU + 1], const double x[restrict N], double y[restrict N])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        y[i] = 0.0;
        for (int j = MAX(0, i - KL); j <= MIN(N - 1, i + KU); j++)
            y[i] += A[i][j - i + KL] * x[j];
    }
#pragma endscop
}
