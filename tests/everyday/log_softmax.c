#include <math.h>

void log_softmax(const float x[M][N], float y[M][N])
{
    for (int i = 0; i < M; i++) {
        float most = -INFINITY, sum = 0.0f;
        for (int j = 0; j < N; j++)
            most = x[i][j] > most ? x[i][j] : most;
        for (int j = 0; j < N; j++)
            sum += expf(x[i][j] - most);
        const float shift = logf(sum);
        for (int j = 0; j < N; j++)
            y[i][j] = x[i][j] - most - shift;
    }
}
