// expect: 5:9: 'A' is volatile
void f(volatile float A[10]) {
#pragma scop
    for (int i = 0; i < 10; i++)
        A[i] = 0.0f;
#pragma endscop
}
