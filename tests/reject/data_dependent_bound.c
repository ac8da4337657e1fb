// expect: 6:11: the subscript depends on data: data decide the bounds of 'i'
void f(int *n, float A[restrict 100])
{
#pragma scop
    for (int i = 0; i < n[0]; i++) {
        A[i] = 0.0f;
        n[1] += i;
    }
#pragma endscop
}
