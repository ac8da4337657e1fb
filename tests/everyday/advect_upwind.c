void advect_upwind(int n, const double *restrict q, const double *restrict vel, double *restrict qn, double dtdx)
{
    for (int i = 1; i < n - 1; i++) {
        if (vel[i] > 0.0)
            qn[i] = q[i] - dtdx * vel[i] * (q[i] - q[i - 1]);
        else
            qn[i] = q[i] - dtdx * vel[i] * (q[i + 1] - q[i]);
    }
}
