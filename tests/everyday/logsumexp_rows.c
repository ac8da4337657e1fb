#include <math.h>

void logsumexp_rows(const float x[M][N], float z[M])
{
    for (int i = 0; i < M; i++) {
        float most = x[i][0];
        for (int j = 1; j < N; j++)
            most = fmaxf(most, x[i][j]);
        float sum = 0.0f;
        for (int j = 0; j < N; j++)
            sum += expf(x[i][j] - most);
        z[i] = most + logf(sum);
    }
}
