#define DIM 4

/* Thousands of small products, as for transforms of a scene. */
void batched_mat4(int batch, const float (*restrict a)[DIM][DIM], const float (*restrict b)[DIM][DIM],
                  float (*restrict c)[DIM][DIM])
{
    for (int n = 0; n < batch; n++)
        for (int i = 0; i < DIM; i++)
            for (int j = 0; j < DIM; j++) {
                c[n][i][j] = 0;
                for (int k = 0; k < DIM; k++)
                    c[n][i][j] += a[n][i][k] * b[n][k][j];
            }
}
