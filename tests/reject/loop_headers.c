// expect: 11:5: the loop does not initialise its variable
// expect: 12:29: the step of 'i' is zero
// expect: 13:34: the step of 'i' is not constant
// expect: 14:29: the increment does not add a constant to 'i'
// expect: 15:5: the loop initialises more than one variable
// expect: 16:41: the increment does not add a constant to 'j'
// expect: 17:5: the loop counts 'j' too, and 'j' changes in it
void f(int n, float A[restrict 100]) {
    int i;
#pragma scop
    for (; i < 10; i++) A[i] = 0.0f;
    for (int i = 0; i < 10; i += 0) A[i] = 0.0f;
    for (int i = 0; i < 10; i += n) A[i] = 0.0f;
    for (int i = 1; i < 10; i *= 2) A[i] = 0.0f;
    for (int i = 1, j = 9; i < 10 && j > 0; i *= 2, j /= 2) A[i] = 0.0f;
    for (int i = 0, j = 9; i < 10; i++, j /= 2) A[i] = 0.0f;
    for (int i = 0, j = 9; i < 10; i++, j--) { A[i] = j; j -= n; }
#pragma endscop
}
