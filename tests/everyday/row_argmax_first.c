/* From the first element on, which stays if it is no number. */
void row_argmax_first(const float x[M][N], float value[M], int where[M])
{
    for (int i = 0; i < M; i++) {
        float best = 0.0f;
        int at = -1;
        for (int j = 0; j < N; j++)
            if (j == 0 || x[i][j] > best) {
                best = x[i][j];
                at = j;
            }
        value[i] = best;
        where[i] = at;
    }
}
