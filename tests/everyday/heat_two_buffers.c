#define ALPHA 0.1

void heat_two_buffers(double u[2][N])
{
    for (int t = 0; t < STEPS; t++)
        for (int i = 1; i < N - 1; i++)
            u[(t + 1) % 2][i] = u[t % 2][i] + ALPHA * (u[t % 2][i - 1] - 2.0 * u[t % 2][i] + u[t % 2][i + 1]);
}
