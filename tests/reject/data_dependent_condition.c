// expect: 7:15: the subscript depends on data: it reads an array
void f(float A[restrict 100], const int at[restrict 100])
{
#pragma scop
    for (int i = 0; i < 100; i++)
        if (A[i] > 0.0f)
            A[at[i]] = 0.0f;
#pragma endscop
}
