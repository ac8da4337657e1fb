typedef struct {
    float re, im;
} complex_t;

void complex_struct(const complex_t a[N], const complex_t b[N], complex_t out[N])
{
    for (int i = 0; i < N; i++) {
        out[i].re = a[i].re * b[i].re - a[i].im * b[i].im;
        out[i].im = a[i].re * b[i].im + a[i].im * b[i].re;
    }
}
