// expect: 10:20: 'goto'
// expect: 12:20: 'return'
// expect: 14:1: a label
// expect: 16:5: a 'while' loop
// expect: 18:5: a 'do' loop
// expect: 21:5: code of this 'switch' stands before its first case
void f(int n, float A[restrict 100]) {
#pragma scop
    for (int i = 0; i < 10; i++) {
        if (i > 6) goto out;
        A[i] = 0.0f;
        if (i > 7) return;
    }
out:
    A[0] = 1.0f;
    while (A[0] > 0.0f)
        A[0] -= 1.0f;
    do
        A[0] -= 1.0f;
    while (A[0] > 0.0f);
    switch (n) { A[0] = 1.0f; case 1: A[0] = 0.0f; }
#pragma endscop
}
