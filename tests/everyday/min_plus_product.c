#include <math.h>

/* Shortest paths of two hops: the product over the semiring (min, +). */
void min_plus_product(const float a[M][K], const float b[K][N], float c[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float least = INFINITY;
            for (int k = 0; k < K; k++) {
                float through = a[i][k] + b[k][j];
                if (through < least)
                    least = through;
            }
            c[i][j] = least;
        }
}
