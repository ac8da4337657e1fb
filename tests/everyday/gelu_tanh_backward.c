#include <math.h>
#define SCALE 0.7978845608028654f

void gelu_tanh_backward(float *dinp, const float *inp, const float *dout, int N)
{
    for (int i = 0; i < N; i++) {
        float x = inp[i];
        float cube = 0.044715f * x * x * x;
        float t = tanhf(SCALE * (x + cube));
        float sech2 = 1.0f - t * t;
        float local = 0.5f * (1.0f + t) + 0.5f * x * sech2 * SCALE * (1.0f + 3.0f * 0.044715f * x * x);
        dinp[i] = local * dout[i];
    }
}
