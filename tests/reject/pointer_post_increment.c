// expect: 5:10: this is not an element of an array
void f(float *p) {
#pragma scop
    for (int i = 0; i < 10; i++)
        *p++ = 0.0f;
#pragma endscop
}
