/* y = alpha * x + y. */
#ifndef N
#define N 4000
#endif

void axpy(double alpha, const double x[restrict N], double y[restrict N])
{
#pragma scop
    for (int i = 0; i < N; i++)
        y[i] += alpha * x[i];
#pragma endscop
}
