/* Two pointers that are stepped as they are used. */
void pointer_walk(const float x[N], float y[N])
{
    const float *from = x;
    float *to = y;
    for (int i = 0; i < N; i++)
        *to++ = 2.5f * *from++;
}
