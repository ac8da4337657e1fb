#include <math.h>

/* Of y = log_softmax(x): dx = dy - e^y sum(dy). */
void log_softmax_backward(const float y[M][N], const float dy[M][N], float dx[M][N])
{
    for (int i = 0; i < M; i++) {
        float sum = 0.0f;
        for (int j = 0; j < N; j++)
            sum += dy[i][j];
        for (int j = 0; j < N; j++)
            dx[i][j] = dy[i][j] - expf(y[i][j]) * sum;
    }
}
