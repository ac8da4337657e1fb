/* A filter of linear phase: taps n and TAPS - 1 - n are the same, so that inputs are added first. */
void fir_symmetric(const float x[N + TAPS - 1], const float h[TAPS / 2], float y[N])
{
    for (int n = 0; n < N; n++) {
        float acc = 0.0f;
        for (int k = 0; k < TAPS / 2; k++)
            acc += h[k] * (x[n + k] + x[n + TAPS - 1 - k]);
        y[n] = acc;
    }
}
