#include <stdint.h>

/* A row of a language model's weights, 4 bits each, in blocks with a scale, times numbers of 8 bits: a token. */
struct block4 {
    _Float16 scale;
    uint8_t pair[16]; /* the lower halves of the bytes first, then the upper ones */
};

struct block8 {
    _Float16 scale;
    int8_t value[32];
};

void quantized_rows(const struct block4 w[M][N], const struct block8 x[N], float y[M])
{
    for (int i = 0; i < M; i++) {
        float sum = 0;
        for (int b = 0; b < N; b++) {
            int dot = 0;
            for (int j = 0; j < 16; j++)
                dot += ((w[i][b].pair[j] & 15) - 8) * x[b].value[j] + ((w[i][b].pair[j] >> 4) - 8) * x[b].value[j + 16];
            sum += (float)dot * (float)w[i][b].scale * (float)x[b].scale;
        }
        y[i] = sum;
    }
}
