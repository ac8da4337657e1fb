#include <math.h>

void softmax_plain(const float x[M][N], float y[M][N])
{
    for (int i = 0; i < M; i++) {
        float most = x[i][0];
        for (int j = 1; j < N; j++)
            if (x[i][j] > most)
                most = x[i][j];
        float sum = 0.0f;
        for (int j = 0; j < N; j++) {
            y[i][j] = expf(x[i][j] - most);
            sum += y[i][j];
        }
        for (int j = 0; j < N; j++)
            y[i][j] /= sum;
    }
}
