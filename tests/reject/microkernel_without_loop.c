// expect: 6:9: 'microkernel call(...)' stands before something that is no loop
void g(float *a);
void f(float A[restrict 8]) {
#pragma scop
#pragma polydl microkernel call(g(A))
        A[0] = 0.0f;
#pragma endscop
}
