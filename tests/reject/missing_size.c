// expect: 5:25: the size of 'n' is missing
// require_sizes
void f(int n, float A[n]) {
#pragma scop
    for (int i = 0; i < n; i++)
        A[i] = 0.0f;
#pragma endscop
}
