// expect: 5:25: an expression has a side effect
void f(float *p, float *q) {
#pragma scop
    for (int i = 0; i < 10; i++)
        q[i] = i > 3 ? *p++ : 0;
#pragma endscop
}
