// expect: 5:26: this 'unsigned int' may exceed 4294967295 and would wrap around
void f(float A[restrict 1000])
{
#pragma scop
    for (unsigned i = 0; i * 2147483649u < 2147483650u; i++)
        A[i] = 1.0f;
#pragma endscop
}
