// expect: 5:16: the effects of the call of 'again' are unknown
static float again(float x) { return again(x - 1.0f); }
void f(float A[10]) {
#pragma scop
        A[0] = again(A[1]);
#pragma endscop
}
