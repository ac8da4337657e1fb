// expect: 3:20: 'B' and 'A' may overlap
// strict_alias
void f(const float *A, float   *B) {
#pragma scop
    for (int i = 0; i < 9; i++)
        B[i] = A[i];
#pragma endscop
}
