#include <math.h>

void rms_norm(float out[ROWS][DIM], const float x[ROWS][DIM], const float weight[DIM])
{
    for (int r = 0; r < ROWS; r++) {
        float ss = 0.0f;
        for (int j = 0; j < DIM; j++) {
            ss += x[r][j] * x[r][j];
        }
        ss /= DIM;
        ss += 1e-5f;
        ss = 1.0f / sqrtf(ss);
        for (int j = 0; j < DIM; j++) {
            out[r][j] = weight[j] * (ss * x[r][j]);
        }
    }
}
