// expect: 6:11: this 'unsigned int' may exceed 4294967295 and would wrap around
void f(unsigned n, float A[restrict 1000])
{
#pragma scop
    for (unsigned i = 0; i < n; i++)
        A[i * 2654435761u % 1000u] = 1.0f;
#pragma endscop
}
