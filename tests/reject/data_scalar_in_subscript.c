// expect: 8:11: the subscript depends on data: 'k' is computed from data
void f(const int index[restrict 100], float A[restrict 100])
{
#pragma scop
    for (int i = 0; i < 100; i++) {
        int k = index[i];
        k = 2 * k;
        A[k] = 0.0f;
    }
#pragma endscop
}
