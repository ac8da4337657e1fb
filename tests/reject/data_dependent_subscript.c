// expect: 6:11: the subscript depends on data: it reads an array
void f(const int index[restrict 100], float A[restrict 100])
{
#pragma scop
    for (int i = 0; i < 100; i++)
        A[index[i]] = 0.0f;
#pragma endscop
}
