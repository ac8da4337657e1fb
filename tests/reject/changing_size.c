// expect: 2:25: 'n' is a size of 'A' and changes in the function
void f(int n, float    (*A)[n]) {
    n = n / 2;
#pragma scop
    for (int i = 0; i < n; i++)
        A[i][0] = 0.0f;
#pragma endscop
}
