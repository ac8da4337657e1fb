void while_copy(const float x[N], float y[N])
{
    int i = 0;
    while (i < N) {
        y[i] = x[i] * 0.5f;
        i++;
    }
}
