/* B := U * B in place, U upper triangular with a unit diagonal that is not stored. */
void trmm_upper(const float U[N][N], float B[N][M])
{
    for (int i = 0; i < N; i++)
        for (int k = i + 1; k < N; k++)
            for (int j = 0; j < M; j++)
                B[i][j] += U[i][k] * B[k][j];
}
