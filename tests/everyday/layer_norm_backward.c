/* Mean and reciprocal deviation of each row are those of the forward pass. */
void layer_norm_backward(const float dy[M][N], const float x[M][N], const float weight[N], const float mean[M],
                         const float rstd[M], float dx[M][N], float dweight[N], float dbias[N])
{
    for (int j = 0; j < N; j++) {
        dweight[j] = 0.0f;
        dbias[j] = 0.0f;
    }
    for (int i = 0; i < M; i++) {
        float sum = 0.0f, dot = 0.0f;
        for (int j = 0; j < N; j++) {
            float norm = (x[i][j] - mean[i]) * rstd[i];
            float d = weight[j] * dy[i][j];
            sum += d;
            dot += d * norm;
        }
        sum = sum / N;
        dot = dot / N;
        for (int j = 0; j < N; j++) {
            float norm = (x[i][j] - mean[i]) * rstd[i];
            float d = weight[j] * dy[i][j];
            dbias[j] += dy[i][j];
            dweight[j] += norm * dy[i][j];
            dx[i][j] = (d - sum - norm * dot) * rstd[i];
        }
    }
}
