// expect: 5:26: this 'unsigned int' may exceed 4294967295 and would wrap around
void f(unsigned n, float A[restrict 1000])
{
#pragma scop
    for (unsigned i = 0; i * 65537u < n * 2147483648u; i++)
        A[i % 1000u] = 1.0f;
#pragma endscop
}
