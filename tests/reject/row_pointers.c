// expect: 8:15: the pointer 'p' is declared in the scop
// expect: 10:22: the pointer 'r' is written in the scop
// expect: 12:22: 'c' points to 'const double *c', not to a row of 'float A[restrict 8][8]'
void f(int n, float A[restrict 8][8], float x[restrict 8]) {
#pragma scop
    for (int i = 0; i < 8; i++) {
        float *q = A[i];
        float *p;
        float *r = &A[i][0];
        x[i] = r[1]; r = A[0];
        x[i] = q[2];
        const double *c = A[i];
        if (q[0] > 1.0f) q[0] -= 1.0f;
    }
#pragma endscop
}
