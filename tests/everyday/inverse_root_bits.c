/* 1 / sqrt(x) by a first guess from the bits and two Newton steps. */
static float inverse_root(float number)
{
    int i;
    float half = number * 0.5f, y = number;
    i = *(int *)&y;
    i = 0x5f3759df - (i >> 1);
    y = *(float *)&i;
    y = y * (1.5f - half * y * y);
    y = y * (1.5f - half * y * y);
    return y;
}

void inverse_root_bits(float out[restrict N], const float in[restrict N])
{
    for (int i = 0; i < N; i++)
        out[i] = inverse_root(in[i]);
}
