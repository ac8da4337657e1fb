static inline double f(double x)
{
    return x * x / (1.0 + x * x);
}

/* Integrals of f over [lo[i], hi[i]] with STEPS strips each. */
void trapezoid_rule(const double lo[N], const double hi[N], double area[N])
{
    for (int i = 0; i < N; i++) {
        const double h = (hi[i] - lo[i]) / STEPS;
        double s = 0.5 * (f(lo[i]) + f(hi[i]));
        for (int k = 1; k < STEPS; k++)
            s += f(lo[i] + k * h);
        area[i] = s * h;
    }
}
