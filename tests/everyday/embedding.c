void embedding(const int ids[T], const float table[V][DIM], float out[T][DIM])
{
    for (int t = 0; t < T; t++)
        for (int d = 0; d < DIM; d++)
            out[t][d] = table[ids[t]][d];
}
