// expect: 5:25: the loop bound is not affine: 'count' is not declared
// expect: 6:43: 'factor' is not declared
void f(float A[100]) {
#pragma scop
    for (int i = 0; i < count; i++) A[i] = 0.0f;
    for (int i = 0; i < 100; i++) A[i] *= factor;
#pragma endscop
}
