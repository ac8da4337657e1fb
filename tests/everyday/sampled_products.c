/* Products of rows at the entries of a pattern (SDDMM), as attention over a graph has them. */
void sampled_products(const int ptr[M + 1], const int col[M * R], const float a[M][J], const float b[N][J],
                      float out[M * R])
{
    for (int i = 0; i < M; i++)
        for (int p = ptr[i]; p < ptr[i + 1]; p++) {
            float sum = 0.0f;
            for (int j = 0; j < J; j++)
                sum += a[i][j] * b[col[p]][j];
            out[p] = sum;
        }
}
