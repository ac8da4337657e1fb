/* Small products whose matrices lie anywhere: arrays of pointers say where, as batched BLAS has them. */
void batch_pointers(const float *const *a, const float *const *b, float *restrict *c)
{
    for (int n = 0; n < BATCH; n++)
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                float sum = 0.0f;
                for (int k = 0; k < K; k++)
                    sum += a[n][i * K + k] * b[n][k * N + j];
                c[n][i * N + j] = sum;
            }
}
