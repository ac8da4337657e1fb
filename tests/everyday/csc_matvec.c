/* A sparse matrix by columns times a vector. */
void csc_matvec(const int ptr[N + 1], const int row[N * R], const float val[N * R], const float x[N], float y[M])
{
    for (int i = 0; i < M; i++)
        y[i] = 0.0f;
    for (int j = 0; j < N; j++)
        for (int p = ptr[j]; p < ptr[j + 1]; p++)
            y[row[p]] += val[p] * x[j];
}
