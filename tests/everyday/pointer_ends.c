/* Loops that count with pointers: one to its end, one beside an index, one that counts down. */
void pointer_ends(int n, int m, const float *restrict in, float *restrict out, float *restrict sum, float gain)
{
    const float *end = in + n;
    float *p;
    for (p = out; p < out + n; p++)
        *p = gain * in[p - out];
    for (const float *q = in; q != end; ++q)
        *sum += *q * *q;
    while (m-- > 0)
        *out++ += 1.0f;
}
