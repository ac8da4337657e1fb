// expect: 5:9: 'A' is const and written
void f(const float A[10]) {
#pragma scop
    for (int i = 0; i < 10; i++)
        A[i] = 0.0f;
#pragma endscop
}
