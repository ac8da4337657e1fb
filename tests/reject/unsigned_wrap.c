// expect: 4:32: this 'unsigned int' may go below zero and would wrap around
void f(unsigned n, float *A) {
#pragma scop
    for (unsigned i = 0u;  i < n - 1; i++)
        A[i] = 0.0f;
#pragma endscop
}
