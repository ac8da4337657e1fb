#include <math.h>
void log_sum_exp(const float x[N], float result[1])
{
    float most = -INFINITY, sum = 0;
    for (int i = 0; i < N; i++) {
        float m = x[i] > most ? x[i] : most;
        sum = sum * expf(most - m) + expf(x[i] - m);
        most = m;
    }
    result[0] = most + logf(sum);
}
