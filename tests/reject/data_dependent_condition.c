// expect: 6:13: the condition depends on data: it reads an array
void f(float A[100])
{
#pragma scop
    for (int i = 0; i < 100; i++)
        if (A[i] > 0.0f)
            A[i] = 0.0f;
#pragma endscop
}
