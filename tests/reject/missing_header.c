// expect: 2:10: nowhere_to_be_found.h
#include "nowhere_to_be_found.h"
void f(float A[10]) {
#pragma scop
    A[0] = 0.0f;
#pragma endscop
}
