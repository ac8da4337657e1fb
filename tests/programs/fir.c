/* Finite impulse response filter, every second sample kept. */
#ifndef N
#define N 500
#endif
#ifndef TAPS
#define TAPS 32
#endif

void fir(const float in[restrict 2 * N + TAPS], const float tap[restrict TAPS], float out[restrict N])
{
#pragma scop
    for (int i = 0; i < N; i++) {
        float sum = 0.0f;
        for (int k = 0; k < TAPS; k++)
            sum += in[2 * i + k] * tap[TAPS - 1 - k];
        out[i] = sum;
    }
#pragma endscop
}
