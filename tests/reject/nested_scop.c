// expect: 5:1: a scop starts inside a scop
void f(float A[10])
{
#pragma scop
#pragma scop
    for (int i = 0; i < 10; i++)
        A[i] = 0.0f;
#pragma endscop
}
