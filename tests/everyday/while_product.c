void while_product(const float a[M][K], const float b[K][N], float c[M][N])
{
    int i, j, k;

    i = 0;
    while (i < M) {
        j = 0;
        while (j < N) {
            float sum = 0.0f;
            k = 0;
            do {
                sum += a[i][k] * b[k][j];
                k++;
            } while (k < K);
            c[i][j] = sum;
            j++;
        }
        i += 1;
    }
}
