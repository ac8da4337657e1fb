/* Tokens sorted by the expert that they were routed to, each times its expert's weights. */
void expert_rows(const int ptr[E + 1], const int token[E * R], const float x[T][K], const float w[E][K][N],
                 float y[E * R][N])
{
    for (int e = 0; e < E; e++)
        for (int p = ptr[e]; p < ptr[e + 1]; p++)
            for (int n = 0; n < N; n++) {
                float sum = 0.0f;
                for (int k = 0; k < K; k++)
                    sum += x[token[p]][k] * w[e][k][n];
                y[p][n] = sum;
            }
}
