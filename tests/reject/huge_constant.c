// expect: 4:25: the loop bound is not affine: the integer constant does not fit any type
void f(float A[10]) {
#pragma scop
    for (int i = 0; i < 99999999999999999999999999; i++)
        A[i] = 0.0f;
#pragma endscop
}
