void embedding_bag(const int *restrict ids, const float table[V * DIM], float *restrict out)
{
    for (int b = 0; b < B; b++) {
        for (int d = 0; d < DIM; d++)
            out[b * DIM + d] = 0.0f;
        for (int k = 0; k < L; k++) {
            const int row = ids[b * L + k];
            for (int d = 0; d < DIM; d++)
                out[b * DIM + d] += table[row * DIM + d];
        }
    }
}
