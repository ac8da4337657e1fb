#include <math.h>

/* A lattice of certainty equivalents: every step is of functions of values, in place. */
void soft_lattice(int n, float a, float *restrict v)
{
    for (int step = n - 1; step >= 0; step--)
        for (int i = 0; i <= step; i++)
            v[i] = -logf(0.5f * expf(-a * v[i]) + 0.5f * expf(-a * v[i + 1])) / a;
}
