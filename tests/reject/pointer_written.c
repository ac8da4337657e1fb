// expect: 5:9: the pointer 'p' is written in the scop
void f(float *p, float *q) {
#pragma scop
    for (int i = 0; i < 10; i++)
        p = q;
#pragma endscop
}
