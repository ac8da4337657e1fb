// expect: 2:10: this is not C that can be read
struct s f { int x; };
void g(float A[9]) {
#pragma scop
    for (int i = 0; i < 9; i++)
        A[i] = 0.0f;
#pragma endscop
}
