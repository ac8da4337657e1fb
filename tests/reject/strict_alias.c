// expect: 3:35: 'B' and 'A' may overlap
// strict_alias
void f(const int *at, const float *A, float   *B) {
#pragma scop
    for (int i = 0; i < 9; i++)
        B[i] = A[at[i]];
#pragma endscop
}
