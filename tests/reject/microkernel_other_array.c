// expect: 7:1: microkernel pragma whose loops touch other data than the call's arguments name: 'B' is touched by the loops and is no argument
// expect: 7:41: the call is given 'D', which the loops do not touch
void g(float *a, float *d, float *c);
void f(float A[restrict 8][8], float B[restrict 8][8], float C[restrict 8][8], float D[restrict 8][8]) {
#pragma scop
    for (int t = 0; t < 8; t++) {
#pragma polydl microkernel call(g(A[t], D[t], C[t]))
        for (int j = 0; j < 8; j++)
            C[t][j] += A[t][j] * B[t][j];
    }
#pragma endscop
}
