/* A running sum: one sample comes in, one goes out. */
void moving_average(const double in[N], double out[N])
{
    double window = 0;
    for (int i = 0; i < N; i++) {
        window += in[i];
        if (i >= WIDTH)
            window -= in[i - WIDTH];
        out[i] = window / WIDTH;
    }
}
