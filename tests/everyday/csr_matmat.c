void csr_matmat(const int ptr[M + 1], const int col[M * R], const float val[M * R], const float x[N][J], float y[M][J])
{
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < J; j++)
            y[i][j] = 0.0f;
        for (int k = ptr[i]; k < ptr[i + 1]; k++)
            for (int j = 0; j < J; j++)
                y[i][j] += val[k] * x[col[k]][j];
    }
}
