void complex_flat(int n, const double *a, const double *b, double *c)
{
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            double ar = a[2 * (i * n + k)], ai = a[2 * (i * n + k) + 1];
            for (int j = 0; j < n; j++) {
                double br = b[2 * (k * n + j)], bi = b[2 * (k * n + j) + 1];
                c[2 * (i * n + j)] += ar * br - ai * bi;
                c[2 * (i * n + j) + 1] += ar * bi + ai * br;
            }
        }
}
