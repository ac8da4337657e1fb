/* Scalar product. */
#ifndef N
#define N 4000
#endif

void dot(const double x[restrict N], const double y[restrict N], double result[restrict 1])
{
    double sum = 0;
#pragma scop
    for (int i = 0; i < N; i++)
        sum += x[i] * y[i];
    result[0] = sum;
#pragma endscop
}
