// expect: 5:23: an address is taken
void f(long A[100]) {
#pragma scop
    for (int i = 0; i < 10; i++)
        A[i] = (long)&A[i];
#pragma endscop
}
