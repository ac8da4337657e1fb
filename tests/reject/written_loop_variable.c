// expect: 6:9: the loop variable 'i' is written in its loop
// expect: 8:5: the function parameter 'n' is written in the scop and read behind it
int f(int n, float A[100]) {
#pragma scop
    for (int i = 0; i < n; i++) {
        i += 2;
    }
    n = n - 1;
#pragma endscop
    return n;
}
