#include <complex.h>

/* One stage of a Fourier transform in powers of two: `half` butterflies in each of `blocks` blocks. */
void fft_stage(int blocks, int half, float complex x[blocks][2][half], const float complex w[half])
{
    for (int b = 0; b < blocks; b++)
        for (int k = 0; k < half; k++) {
            float complex even = x[b][0][k], odd = w[k] * x[b][1][k];
            x[b][0][k] = even + odd;
            x[b][1][k] = even - odd;
        }
}
