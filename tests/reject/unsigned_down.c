// expect: 4:28: 'i' is unsigned and wraps around below zero
void f(float A[100]) {
#pragma scop
    for (unsigned i = 9u;  i >= 0; i--)
        A[i] = 0.0f;
#pragma endscop
}
