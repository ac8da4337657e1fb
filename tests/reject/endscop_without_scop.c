// expect: 6:1: '#pragma endscop' without '#pragma scop'
void f(float A[10])
{
    for (int i = 0; i < 10; i++)
        A[i] = 0.0f;
#pragma endscop
}
