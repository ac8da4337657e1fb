void four_moments(const double *x, double out[4])
{
    double a = 0, b = 0, c = 0, d = 0;
    for (int i = 0; i < N; i++) {
        double v = *x++;
        a += v;
        b += v * v;
        c += v * v * v;
        d += v * v * v * v;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}
