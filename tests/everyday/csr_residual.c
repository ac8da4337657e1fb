/* The residual b - A x of a solver. */
void csr_residual(const int ptr[M + 1], const int col[M * R], const double val[M * R], const double x[N],
                  const double b[M], double r[M])
{
    for (int i = 0; i < M; i++) {
        r[i] = b[i];
        for (int k = ptr[i]; k < ptr[i + 1]; k++)
            r[i] -= val[k] * x[col[k]];
    }
}
