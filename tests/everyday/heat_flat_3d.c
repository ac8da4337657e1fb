#define IDX(i, j, k) (((i) * N + (j)) * N + (k))

void heat_flat_3d(const double *restrict src, double *restrict dst)
{
    for (int i = 1; i < N - 1; ++i)
        for (int j = 1; j < N - 1; ++j)
            for (int k = 1; k < N - 1; ++k)
                dst[IDX(i, j, k)] = 0.4 * src[IDX(i, j, k)]
                    + 0.1 * (src[IDX(i - 1, j, k)] + src[IDX(i + 1, j, k)]
                           + src[IDX(i, j - 1, k)] + src[IDX(i, j + 1, k)]
                           + src[IDX(i, j, k - 1)] + src[IDX(i, j, k + 1)]);
}
