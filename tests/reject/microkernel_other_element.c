// expect: 7:12: the first element of 'A' that the loops touch is not '&A[0][t]'
void g(float *a, float *c);
void f(float A[restrict 8][8], float C[restrict 8][8]) {
#pragma scop
    for (int t = 0; t < 8; t++) {
#pragma polydl microkernel loops(for (int j = 0; j < 8; j++) C[t][j] += A[t][j];)
        g(&A[0][t],               C[t]);
    }
#pragma endscop
}
