// expect: 5:25: struct members are not supported
struct size { int n; };
void f(const struct size *s, float A[100]) {
#pragma scop
    for (int i = 0; i < s->n; i++)
        A[i] = 0.0f;
#pragma endscop
}
