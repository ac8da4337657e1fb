void syrk_symmetric(const float A[M][K], float C[M][M])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j <= i; j++) {
            float s = 0.0f;
            for (int k = 0; k < K; k++)
                s += A[i][k] * A[j][k];
            C[i][j] = s;
            C[j][i] = s;
        }
}
