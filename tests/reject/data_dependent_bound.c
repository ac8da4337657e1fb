// expect: 5:25: the loop bound depends on data: it reads an array
void f(const int *n, float A[restrict 100])
{
#pragma scop
    for (int i = 0; i < n[0]; i++)
        A[i] = 0.0f;
#pragma endscop
}
