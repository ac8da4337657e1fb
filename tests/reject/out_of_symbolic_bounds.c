// expect: 5:9: subscript 1 of 'A' leaves its bounds
void f(int n, float A[n]) {
#pragma scop
    for (int i = 0; i <= n; i++)
        A[i] = 0.0f;
#pragma endscop
}
