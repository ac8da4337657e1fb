// expect: 8:16: the effects of the call of 'mystery' are unknown
// expect: 9:9: the effects of the call of 'update' are unknown
float mystery(float x);
void update(float *x);
void f(float A[100]) {
#pragma scop
    for (int i = 0; i < 100; i++) {
        A[i] = mystery(A[i]);
        update(&A[i]);
    }
#pragma endscop
}
