// expect: 12:20: 'break'
// expect: 14:20: 'continue'
// expect: 16:20: 'goto'
// expect: 18:20: 'return'
// expect: 20:1: a label
// expect: 22:5: a 'while' loop
// expect: 24:5: a 'do' loop
// expect: 27:5: 'switch'
void f(int n, float A[restrict 100]) {
#pragma scop
    for (int i = 0; i < 10; i++) {
        if (i > 4) break;
        A[i] = 0.0f;
        if (i > 5) continue;
        A[i] = 0.0f;
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
    switch (n) { case 1: A[0] = 0.0f; }
#pragma endscop
}
