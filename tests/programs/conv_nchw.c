/* Convolution layer, channels outside, with bias and ReLU. */
#ifndef B
#define B 2
#endif
#ifndef CO
#define CO 12
#endif
#ifndef CI
#define CI 10
#endif
#ifndef H
#define H 14
#endif
#ifndef W
#define W 14
#endif
#ifndef K
#define K 3
#endif

void conv_nchw(const float in[restrict B][CI][H + K - 1][W + K - 1], const float w[restrict CO][CI][K][K],
               const float bias[restrict CO], float out[restrict B][CO][H][W])
{
#pragma scop
    for (int n = 0; n < B; n++)
        for (int o = 0; o < CO; o++)
            for (int y = 0; y < H; y++)
                for (int x = 0; x < W; x++) {
                    out[n][o][y][x] = bias[o];
                    for (int i = 0; i < CI; i++)
                        for (int p = 0; p < K; p++)
                            for (int q = 0; q < K; q++)
                                out[n][o][y][x] += in[n][i][y + p][x + q] * w[o][i][p][q];
                    out[n][o][y][x] = out[n][o][y][x] > 0.0f ? out[n][o][y][x] : 0.0f;
                }
#pragma endscop
}
