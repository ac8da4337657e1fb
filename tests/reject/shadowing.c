// expect: 10:61: 'i' hides another 'i'
void scale(int n, float *x);
void f(int n, float A[100][100]) {
#pragma scop
    for (int i = 0; i < 100; i++)
#pragma polydl microkernel call(scale(100, &A[i][0]))
        for (int j = 0; j < 100; j++)
            A[i][j] *= 2.0f;
    for (int k = 0; k < 100; k++)
    { float n = 0.0f; for (int i = 0; i < 100; i++) { float i = 0.0f; A[k][0] += i + n; } }
#pragma endscop
}
