// expect: 3:25: 'Z' is not an array of this function
void f(int n, float A[restrict n]) {
#pragma polydl live_out(Z, A)
#pragma scop
    for (int i = 0; i < n; i++)
        A[i] = 0.0f;
#pragma endscop
}
