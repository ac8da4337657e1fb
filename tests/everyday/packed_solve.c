#define AT(i, j) ((i) * ((i) + 1) / 2 + (j))
/* Solves L x = b in place, L lower triangular and packed row by row (BLAS' tpsv). */
void packed_solve(int n, const double *restrict ap, double *restrict x)
{
    for (int i = 0; i < n; i++) {
        double s = x[i];
        for (int j = 0; j < i; j++)
            s -= ap[AT(i, j)] * x[j];
        x[i] = s / ap[AT(i, i)];
    }
}
