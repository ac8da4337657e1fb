/* The gradient of a layer's input in front of its ReLU: a product, and zero where nothing went through. */
void relu_gradient(const float dy[M][K], const float w[K][N], const float y[M][N], float dx[M][N])
{
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            float sum = 0.0f;
            for (int k = 0; k < K; k++)
                sum += dy[i][k] * w[k][j];
            dx[i][j] = y[i][j] <= 0.0f ? 0.0f : sum;
        }
}
