/* A += alpha x x^T, the upper triangle of A packed column by column (BLAS' spr). */
void packed_rank_one(int n, double alpha, const double *restrict x, double *restrict ap)
{
    int kk = 0;
    for (int j = 0; j < n; j++) {
        double t = alpha * x[j];
        int k = kk;
        for (int i = 0; i <= j; i++) {
            ap[k] += x[i] * t;
            k++;
        }
        kk += j + 1;
    }
}
