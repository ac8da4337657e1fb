// expect: 5:9: 'A' is an array of pointers
void f(float ***A) {
#pragma scop
    for (int i = 0; i < 10; i++)
        A[i][0][0] = 0.0f;
#pragma endscop
}
