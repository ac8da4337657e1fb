#define A(i, j) a[(j) * lda + (i)]

/* y := alpha * A * x + beta * y, columns one after the other. */
void dgemv_column_major(int m, int n, double alpha, const double *restrict a, int lda, const double *restrict x,
                        double beta, double *restrict y)
{
    int i, j;
    for (i = 0; i < m; i++)
        y[i] = beta * y[i];
    for (j = 0; j < n; j++) {
        double t = alpha * x[j];
        for (i = 0; i < m; i++)
            y[i] += t * A(i, j);
    }
}
