/* The greatest of the neighbours' features, 0 for a node without any: the pooling of a graph network. */
void neighbours_max(const int ptr[M + 1], const int col[M * R], const float x[N][J], float y[M][J])
{
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < J; j++)
            y[i][j] = 0.0f;
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            for (int j = 0; j < J; j++)
                y[i][j] = x[col[p]][j] > y[i][j] ? x[col[p]][j] : y[i][j];
    }
}
