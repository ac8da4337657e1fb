#define TAPS 32
void convolve_reversed(const float *x, const float *h, float *y, int n)
{
    int i = 0;
    while (i < n) {
        float s = 0;
        int j = 0, k = TAPS - 1;
        while (j < TAPS) {
            s += x[i + j] * h[k];
            j++;
            k--;
        }
        y[i] = s;
        i++;
    }
}
