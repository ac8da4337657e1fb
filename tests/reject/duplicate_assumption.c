// expect: 3:1: the assumption contradicts
void f(int n, float A[restrict n]) {
#pragma polydl assume(n > 3 && n < 2)
#pragma scop
    for (int i = 0; i < n; i++)
        A[i] = 0.0f;
#pragma endscop
}
