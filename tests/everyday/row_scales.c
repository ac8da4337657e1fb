#include <math.h>
void row_scales(const float x[M][N], float scale[M], float whole[1])
{
    float all = 0;
    for (int i = 0; i < M; i++) {
        float most = 0;
        for (int j = 0; j < N; j++)
            most = fmaxf(most, fabsf(x[i][j]));
        scale[i] = most / 127.0f;
        all = fmaxf(all, most);
    }
    whole[0] = all;
}
