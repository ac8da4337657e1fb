void matvec(const float A[M][N], const float x[N], float y[M])
{
    for (int i = 0; i < M; i++) {
        float s = 0.0f;
        for (int j = 0; j < N; j++)
            s += A[i][j] * x[j];
        y[i] = s;
    }
}
