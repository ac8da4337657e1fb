// expect: 5:25: the loop bound is not affine: it multiplies 'n'
void f(int n, float A[100])
{
#pragma scop
    for (int i = 0; i < n * n; i++)
        A[i] = 0.0f;
#pragma endscop
}
