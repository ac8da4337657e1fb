// expect: 7:9: the subscript is not affine: it multiplies 'i' and 'j'
// expect: 8:15: the subscript is not affine: '/' by a value that is not constant
void f(int n, float A[restrict 100])
{
#pragma scop
    for (int i = 0; i < 10; i++) for (int j = 1; j < 10; j++) {
        A[i * j] = 0.0f;
        A[i / j] = 0.0f;
    }
#pragma endscop
}
