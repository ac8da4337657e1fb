void variance_two_passes(const float x[M][N], float var[M])
{
    for (int i = 0; i < M; i++) {
        float mean = 0.0f;
        for (int j = 0; j < N; j++)
            mean += x[i][j];
        mean /= N;
        float v = 0.0f;
        for (int j = 0; j < N; j++) {
            float d = x[i][j] - mean;
            v += d * d;
        }
        var[i] = v / (N - 1);
    }
}
