void min_plus_place(const float A[M][N], const float x[N], float y[M], int by[M])
{
    for (int i = 0; i < M; i++) {
        y[i] = A[i][0] + x[0];
        by[i] = 0;
        for (int j = 1; j < N; j++)
            if (A[i][j] + x[j] < y[i]) {
                y[i] = A[i][j] + x[j];
                by[i] = j;
            }
    }
}
