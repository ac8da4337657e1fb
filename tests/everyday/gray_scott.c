/* A time step of reaction and diffusion on a torus, with helpers for the neighbours. */
typedef double field[N][N];

static int wrap(int i)
{
    return (i + N) % N;
}

static double laplacian(field f, int i, int j)
{
    double edge = f[wrap(i - 1)][j] + f[wrap(i + 1)][j] + f[i][wrap(j - 1)] + f[i][wrap(j + 1)];
    double diag = f[wrap(i - 1)][wrap(j - 1)] + f[wrap(i - 1)][wrap(j + 1)] + f[wrap(i + 1)][wrap(j - 1)] +
                  f[wrap(i + 1)][wrap(j + 1)];
    return 0.2 * edge + 0.05 * diag - f[i][j];
}

void gray_scott(field u, field v, field un, field vn, double Du, double Dv, double F, double k, double dt)
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double uvv = u[i][j] * v[i][j] * v[i][j];
            un[i][j] = u[i][j] + dt * (Du * laplacian(u, i, j) - uvv + F * (1.0 - u[i][j]));
            vn[i][j] = v[i][j] + dt * (Dv * laplacian(v, i, j) + uvv - (F + k) * v[i][j]);
        }
}
