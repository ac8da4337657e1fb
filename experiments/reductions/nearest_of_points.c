void nearest_of_points(const float p[N][3], const float q[M][3], int at[M], float distance[M])
{
    for (int i = 0; i < M; i++) {
        float best = 1e30f;
        int k = 0;
        for (int j = 0; j < N; j++) {
            float x = p[j][0] - q[i][0], y = p[j][1] - q[i][1], z = p[j][2] - q[i][2];
            float d = x * x + y * y + z * z;
            if (d < best) {
                best = d;
                k = j;
            }
        }
        at[i] = k;
        distance[i] = best;
    }
}
