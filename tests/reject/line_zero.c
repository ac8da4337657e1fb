// expect: 1:1: the preprocessor says: #else without #if
#line 0
#else
void f(float A[9]) {
#pragma scop
    for (int i = 0; i < 9; i++)
        A[i] = 0.0f;
#pragma endscop
}
