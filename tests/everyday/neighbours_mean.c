/* The mean of the neighbours' features, for a node with none its own: a layer of GraphSAGE without its weights. */
void neighbours_mean(const int ptr[M + 1], const int col[M * R], const float x[M][J], float y[M][J])
{
    for (int i = 0; i < M; i++) {
        const int degree = ptr[i + 1] - ptr[i];
        const float scale = degree > 0 ? 1.0f / (float)degree : 0.0f;
        for (int j = 0; j < J; j++) {
            float sum = 0.0f;
            for (int p = ptr[i]; p < ptr[i + 1]; p++)
                sum += x[col[p]][j];
            y[i][j] = degree > 0 ? sum * scale : x[i][j];
        }
    }
}
