// expect: 2:46: a pragma must stand on a line of its own
void f(int n, float A[restrict n]) { #pragma polydl live_out(A)
#pragma scop
    for (int i = 0; i < n; i++)
        A[i] = 0.0f;
#pragma endscop
}
