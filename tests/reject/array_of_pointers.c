// expect: 5:24: data decide which rows are used of 'A', an array of pointers to rows
void f(float **A, const int *wanted) {
#pragma scop
    for (int i = 0; i < 10; i++)
        if (wanted[i]) A[i][0] = 0.0f;
#pragma endscop
}
