/* Helpers that take pointers: a sum over two rows, and one that writes. */
static float dot(const float *a, const float *b, int len)
{
    float s = 0.0f;
    for (int k = 0; k < len; k++)
        s += a[k] * b[k];
    return s;
}

static void scale(float *row, int n, float by)
{
    for (int k = 0; k < n; ++k)
        row[k] *= by;
}

void helper_rows(int m, int n, float y[m], float A[m][n], const float *restrict x)
{
    for (int i = 0; i < m; i++) {
        y[i] = dot(A[i], x, n);
        scale(&A[i][0], n, -1.0f);
        if (dot(&A[i][0], A[i], n) > 1e3f)
            y[i] = -y[i];
    }
}
