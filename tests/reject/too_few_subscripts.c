// expect: 5:9: 'A' has 2 dimensions but 1 subscript
void f(float A[10][10]) {
#pragma scop
    for (int i = 0; i < 10; i++)
        A[i] = 0;
#pragma endscop
}
