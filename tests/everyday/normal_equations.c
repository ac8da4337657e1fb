/* A^T A and A^T b of a least-squares problem, a sample (a row of A) at a time. */
void normal_equations(int samples, int features, double A[samples][features], double b[samples],
                      double AtA[features][features], double Atb[features])
{
    for (int i = 0; i < features; i++) {
        Atb[i] = 0;
        for (int j = 0; j < features; j++)
            AtA[i][j] = 0;
    }
    for (int s = 0; s < samples; s++)
        for (int i = 0; i < features; i++) {
            Atb[i] += A[s][i] * b[s];
            for (int j = 0; j < features; j++)
                AtA[i][j] += A[s][i] * A[s][j];
        }
}
