// expect: 2:1: outside any function
#pragma scop
void f(float A[10]);
#pragma endscop
