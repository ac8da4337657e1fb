void dot_product(int n, const float *restrict x, const float *restrict y, float *restrict out)
{
    float s = 0.0f;
    for (const float *p = x, *q = y, *end = x + n; p < end; p++, q++)
        s += *p * *q;
    *out = s;
}
