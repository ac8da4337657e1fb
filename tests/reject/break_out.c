// expect: 7:13: 'break'
// expect: 9:37: 'continue'
void f(int n, float A[restrict 100]) {
    for (int t = 0; t < n; t++) {
#pragma scop
        if (A[0] > 1.0f)
            break;
        for (int i = 0; i < 10; i++)
            A[i] = 0.0f; if (t > 2) continue;
#pragma endscop
    }
}
