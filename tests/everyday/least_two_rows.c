/* Distances to the nearest two of each row. */
void least_two_rows(const float x[M][N], float nearest[M], float next[M])
{
    for (int i = 0; i < M; i++) {
        float a = 1e30f, b = 1e30f;
        for (int j = 0; j < N; j++) {
            if (x[i][j] < a) {
                b = a;
                a = x[i][j];
            } else if (x[i][j] < b) {
                b = x[i][j];
            }
        }
        nearest[i] = a;
        next[i] = b;
    }
}
