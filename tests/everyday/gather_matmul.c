void gather_matmul(const int ids[T], const float table[V][DIM], const float W[DIM][H], float X[T][DIM], float Y[T][H])
{
    for (int t = 0; t < T; t++) {
        const float *row = table[ids[t]];
        for (int d = 0; d < DIM; d++)
            X[t][d] = row[d];
    }
    for (int t = 0; t < T; t++)
        for (int h = 0; h < H; h++) {
            float sum = 0.0f;
            for (int d = 0; d < DIM; d++)
                sum += X[t][d] * W[d][h];
            Y[t][h] = sum;
        }
}
