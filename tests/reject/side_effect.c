// expect: 5:17: an expression has a side effect
void f(float A[10], float B[10]) {
#pragma scop
    for (int i = 0; i < 10; i++)
        A[i] = (B[i] = 0.0f) + 1.0f;
#pragma endscop
}
