#include <math.h>

void gamma_correct(float *pixels, long npixels, float gamma, float gain)
{
    for (long i = 0; i < npixels; i++)
        pixels[i] = gain * powf(pixels[i], gamma);
}
