void csr_row_pointers(const int ptr[M + 1], const int col[M * R], const float val[M * R], const float *x, float *y)
{
    for (int r = 0; r < M; r++) {
        float *row = y + r * J;
        for (int c = 0; c < J; c++)
            row[c] = 0.0f;
        for (int p = ptr[r]; p < ptr[r + 1]; p++) {
            const float v = val[p];
            const float *xr = x + col[p] * J;
            for (int c = 0; c < J; c++)
                row[c] += v * xr[c];
        }
    }
}
