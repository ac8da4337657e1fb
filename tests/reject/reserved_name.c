// expect: 5:16: 'polydl_x' begins with 'polydl_', as names in the output do
void f(const float *polydl_x, float *y, int n) {
#pragma scop
    for (int i = 0; i < 10; i++)
        y[i] = polydl_x[i];
#pragma endscop
}
