#include <math.h>

void softmax_rows(float x[ROWS][COLS])
{
    for (int i = 0; i < ROWS; i++) {
        float max_val = x[i][0];
        for (int j = 1; j < COLS; j++) {
            if (x[i][j] > max_val) {
                max_val = x[i][j];
            }
        }
        float sum = 0.0f;
        for (int j = 0; j < COLS; j++) {
            x[i][j] = expf(x[i][j] - max_val);
            sum += x[i][j];
        }
        for (int j = 0; j < COLS; j++) {
            x[i][j] /= sum;
        }
    }
}
