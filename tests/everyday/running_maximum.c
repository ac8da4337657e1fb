void running_maximum(float peak[restrict M][N], const float x[restrict M][N])
{
    for (int i = 0; i < M; i++) {
        float best = x[i][0];
        for (int j = 0; j < N; j++) {
            best = x[i][j] > best ? x[i][j] : best;
            peak[i][j] = best;
        }
    }
}
