/* Layers that are calls, one after the other. */
static void linear(int m, int n, int k, const float *x, const float *w, const float *b, float *y)
{
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            float sum = b[j];
            for (int l = 0; l < k; l++)
                sum += x[i * k + l] * w[l * n + j];
            y[i * n + j] = sum;
        }
}

static void relu(int n, float *y)
{
    for (int i = 0; i < n; i++)
        y[i] = y[i] > 0.0f ? y[i] : 0.0f;
}

void mlp_in_calls(const float x[M * N0], const float w1[N0 * N1], const float b1[N1], const float w2[N1 * N2],
                  const float b2[N2], float y[M * N2])
{
    static float h[M * N1];
    linear(M, N1, N0, x, w1, b1, h);
    relu(M * N1, h);
    linear(M, N2, N1, h, w2, b2, y);
}
