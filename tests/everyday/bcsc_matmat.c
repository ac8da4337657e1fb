/* A matrix with blocks of 4 x 4 by columns of blocks, from the right: y = x A. */
void bcsc_matmat(const int ptr[N + 1], const int row[N * R], const float val[N * R][4][4], const float x[T][M][4],
                 float y[T][N][4])
{
    for (int t = 0; t < T; t++)
        for (int j = 0; j < N; j++)
            for (int c = 0; c < 4; c++) {
                float sum = 0.0f;
                for (int p = ptr[j]; p < ptr[j + 1]; p++)
                    for (int r = 0; r < 4; r++)
                        sum += x[t][row[p]][r] * val[p][r][c];
                y[t][j][c] = sum;
            }
}
