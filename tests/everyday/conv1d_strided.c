#define STRIDE 2
#define TAPS 5

void conv1d_strided(const float in[CI][LEN], const float weight[CO][CI][TAPS], const float bias[CO],
                    float out[CO][(LEN - TAPS) / STRIDE + 1])
{
    for (int co = 0; co < CO; co++)
        for (int l = 0; l < (LEN - TAPS) / STRIDE + 1; l++) {
            float acc = bias[co];
            for (int ci = 0; ci < CI; ci++)
                for (int t = 0; t < TAPS; t++)
                    acc += in[ci][l * STRIDE + t] * weight[co][ci][t];
            out[co][l] = acc;
        }
}
