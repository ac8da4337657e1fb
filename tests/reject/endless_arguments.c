// expect: 8:1: the preprocessor says: unterminated argument list invoking macro "MAX"
#define MAX(a, b) ((a) > (b) ? (a) : (b))
void f(float A[9]) {
#pragma scop
    for (int i = 0; i < 9; i++)
        A[i] = MAX(1, 2;
#pragma endscop
}
