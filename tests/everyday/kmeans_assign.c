/* The nearest of K centres for every point, and the sum of the squared distances to them. */
void kmeans_assign(int n, const float points[n][DIM], const float centres[K][DIM], int label[n], float dist[n])
{
    for (int i = 0; i < n; i++) {
        int best = 0;
        float best_d = 1e30f;
        for (int k = 0; k < K; k++) {
            float d = 0.0f;
            for (int j = 0; j < DIM; j++) {
                float t = points[i][j] - centres[k][j];
                d += t * t;
            }
            if (d < best_d) {
                best_d = d;
                best = k;
            }
        }
        label[i] = best;
        dist[i] = best_d;
    }
}
