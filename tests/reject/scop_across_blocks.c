// expect: 5:1: the scop is not closed in the block that opens it
void f(float A[10])
{
    for (int i = 0; i < 10; i++) {
#pragma scop
        A[i] = 0.0f;
    }
#pragma endscop
}
