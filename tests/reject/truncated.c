// expect: 6:12: the file ends too early, behind '{'
void f(int n, float *restrict A) {
#pragma scop
    for (int i = 0; i < n; i++) A[i] = 0.0f;
#pragma endscop
    if (n) {
