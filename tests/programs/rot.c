/* Plane rotation of two vectors. */
#ifndef N
#define N 4000
#endif

void rot(double c, double s, double x[restrict N], double y[restrict N])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        double t = c * x[i] + s * y[i];
        y[i] = c * y[i] - s * x[i];
        x[i] = t;
    }
#pragma endscop
}
