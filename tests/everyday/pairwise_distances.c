void pairwise_distances(const float x[M][DIM], const float y[N][DIM], float out[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float s = 0.0f;
            for (int d = 0; d < DIM; d++) {
                float t = x[i][d] - y[j][d];
                s += t * t;
            }
            out[i][j] = s;
        }
}
