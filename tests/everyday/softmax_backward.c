/* Of y = softmax(x), rows alone: dx = y (dy - <y, dy>). */
void softmax_backward(const float y[M][N], const float dy[M][N], float dx[M][N])
{
    for (int i = 0; i < M; i++) {
        float dot = 0.0f;
        for (int j = 0; j < N; j++)
            dot += y[i][j] * dy[i][j];
        for (int j = 0; j < N; j++)
            dx[i][j] = y[i][j] * (dy[i][j] - dot);
    }
}
