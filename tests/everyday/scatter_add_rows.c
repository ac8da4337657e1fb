/* The gradient of an embedding. */
void scatter_add_rows(float table[V][D], const float rows[restrict N][D], const int index[restrict N])
{
    for (int i = 0; i < N; i++)
        for (int d = 0; d < D; d++)
            table[index[i]][d] += rows[i][d];
}
