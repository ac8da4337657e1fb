void scatter_rows(const int rows[T], const float X[T][DIM], float table[V][DIM])
{
    for (int t = 0; t < T; t++)
        for (int d = 0; d < DIM; d++)
            table[rows[t]][d] = X[t][d];
}
