void csr_pointers(int m, const int *ptr, const int *col, const float *val, const float *x, float *restrict y)
{
    int i, k;
    for (i = 0; i < m; i++) {
        float sum = 0;
        int begin = ptr[i], end = ptr[i + 1];
        for (k = begin; k < end; ++k)
            sum += val[k] * x[col[k]];
        y[i] = sum;
    }
}
