// expect: 4:8: not C that can be read
void f(float A[10])
{
    A[ = 3;
#pragma scop
    for (int i = 0; i < 10; i++)
        A[i] = 0.0f;
#pragma endscop
}
