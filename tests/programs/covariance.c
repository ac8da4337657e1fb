/* Covariance matrix of M variables in N observations. */
#ifndef N
#define N 120
#endif
#ifndef M
#define M 100
#endif

void covariance(double data[restrict N][M], double cov[restrict M][M], double mean[restrict M])
{
#pragma scop
    for (int j = 0; j < M; j++) {
        mean[j] = 0.0;
        for (int i = 0; i < N; i++)
            mean[j] += data[i][j];
        mean[j] /= N;
    }
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++)
            data[i][j] -= mean[j];
    for (int i = 0; i < M; i++)
        for (int j = i; j < M; j++) {
            cov[i][j] = 0.0;
            for (int k = 0; k < N; k++)
                cov[i][j] += data[k][i] * data[k][j];
            cov[i][j] /= N - 1.0;
            cov[j][i] = cov[i][j];
        }
#pragma endscop
}
