void csr_matvec(const int ptr[M + 1], const int col[M * R], const float val[M * R], const float x[N], float y[M])
{
    for (int i = 0; i < M; i++) {
        float s = 0.0f;
        for (int k = ptr[i]; k < ptr[i + 1]; k++)
            s += val[k] * x[col[k]];
        y[i] = s;
    }
}
