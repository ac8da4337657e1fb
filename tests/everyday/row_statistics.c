void row_statistics(const float x[M][N], float mean[M], float power[M], float peak[M])
{
    for (int i = 0; i < M; i++) {
        float s = 0.0f, q = 0.0f, m = x[i][0];
        for (int j = 0; j < N; j++) {
            float v = x[i][j];
            s += v;
            q += v * v;
            if (v > m)
                m = v;
        }
        mean[i] = s / N;
        power[i] = q / N;
        peak[i] = m;
    }
}
