// expect: 5:16: unknown word 'mikrokernel' after '#pragma polydl'
// expect: 6:28: unknown word 'loop' after '#pragma polydl microkernel'
void f(float A[100]) {
#pragma scop
#pragma polydl mikrokernel call(g(A))
#pragma polydl microkernel loop(for (;;) ;)
    for (int i = 0; i < 100; i++) A[i] = 0.0f;
#pragma endscop
}
