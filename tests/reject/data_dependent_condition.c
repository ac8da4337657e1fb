// expect: 8:15: the subscript depends on data: 'k' is computed from data
void f(float A[restrict 100], const int at[restrict 100])
{
    int k = 3;
#pragma scop
    for (int i = 0; i < 100; i++) {
        if (A[i] > 0.0f)
            A[k] = 0.0f;
        k = at[i];
    }
#pragma endscop
}
