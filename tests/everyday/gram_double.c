void gram_double(int n, int d, const float *x, float *gram)
{
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            double dot = 0.0;
            for (int k = 0; k < d; k++)
                dot += (double)x[i * d + k] * (double)x[j * d + k];
            gram[i * n + j] = gram[j * n + i] = (float)dot;
        }
    }
}
