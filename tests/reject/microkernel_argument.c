// expect: 9:47: the argument has a value that a loop or a condition left behind
// expect: 12:47: the argument has a value that a loop or a condition left behind
void mk(float *x, int n);
void f(float x[restrict 40]) {
    int k;
#pragma scop
    for (k = 0; k < 7; k += 2) x[k] = 1;
    for (int i = 0; i < 4; i++)
#pragma polydl microkernel call(mk(&x[8 * i], 3 * k))
        for (int j = 0; j < 8; j++) x[8 * i + j] += 1;
    for (int i = 0, m = k + 1; i < 4; i++) {
#pragma polydl microkernel call(mk(&x[8 * i], m))
        for (int j = 0; j < 8; j++) x[8 * i + j] += 1;
    }
#pragma endscop
}
