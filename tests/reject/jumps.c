// expect: 8:20: 'goto'
// expect: 10:20: 'return'
// expect: 12:1: a label
// expect: 14:5: code of this 'switch' stands before its first case
void f(int n, float A[restrict 100]) {
#pragma scop
    for (int i = 0; i < 10; i++) {
        if (i > 6) goto out;
        A[i] = 0.0f;
        if (i > 7) return;
    }
out:
    A[0] = 1.0f;
    switch (n) { A[0] = 1.0f; case 1: A[0] = 0.0f; }
#pragma endscop
}
