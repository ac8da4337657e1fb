#include <math.h>
void online_rows(const float x[M][N], float m[M], float s[M])
{
    for (int i = 0; i < M; i++) {
        float top = -1e30f, sum = 0;
        for (int j = N - 1; j >= 0; j--) {
            float t = x[i][j] > top ? x[i][j] : top;
            sum = sum * expf(top - t) + expf(x[i][j] - t);
            top = t;
        }
        m[i] = top;
        s[i] = sum;
    }
}
