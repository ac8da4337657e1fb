/* A layer of a perceptron: bias, product, residual and ReLU, a nest each. */
void mlp_layer(float y[restrict 512][1024], const float x[restrict 512][768], const float w[restrict 768][1024],
               const float bias[restrict 1024], const float residual[restrict 512][1024])
{
#pragma scop
    for (int i = 0; i < 512; i++)
        for (int j = 0; j < 1024; j++)
            y[i][j] = bias[j];
    for (int i = 0; i < 512; i++)
        for (int j = 0; j < 1024; j++)
            for (int k = 0; k < 768; k++)
                y[i][j] += x[i][k] * w[k][j];
    for (int i = 0; i < 512; i++)
        for (int j = 0; j < 1024; j++)
            y[i][j] += residual[i][j];
    for (int i = 0; i < 512; i++)
        for (int j = 0; j < 1024; j++)
            y[i][j] = y[i][j] > 0.0f ? y[i][j] : 0.0f;
#pragma endscop
}
