// expect: 8:11: the subscript depends on data: 'k' is computed from data
void f(const float x[restrict 100], float A[restrict 100], const int step[restrict 100])
{
    int k = 0;
#pragma scop
    for (int i = 0; i < 100; i++) {
        if (x[i] > 0.0f) k += step[i];
        A[k] = x[i];
    }
#pragma endscop
}
