void mean_variance(const float x[M][N], float mean[M], float var[M])
{
    for (int i = 0; i < M; i++) {
        float s = 0.0f, q = 0.0f;
        for (int j = 0; j < N; j++) {
            s += x[i][j];
            q += x[i][j] * x[i][j];
        }
        mean[i] = s / N;
        var[i] = q / N - (s / N) * (s / N);
    }
}
