/* Neighbours beyond the border are zero. */
void shift_masked(int n, int m, const float *restrict x, float *restrict y)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            float left = j > 0 ? x[i * m + j - 1] : 0.0f;
            float right = (j + 1 < m) ? x[i * m + j + 1] : 0.0f;
            float up = i == 0 ? 0.0f : x[(i - 1) * m + j];
            y[i * m + j] = left + right - 2 * up;
        }
}
