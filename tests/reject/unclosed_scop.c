// expect: 4:1: the scop is never closed
void f(float A[10])
{
#pragma scop
    for (int i = 0; i < 10; i++)
        A[i] = 0.0f;
}
