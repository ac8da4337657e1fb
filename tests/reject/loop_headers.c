// expect: 9:5: the loop does not initialise its variable
// expect: 10:29: the step of 'i' is zero
// expect: 11:34: the step of 'i' is not constant
// expect: 12:29: the increment does not add a constant to 'i'
// expect: 13:5: the loop initialises more than one variable
void f(int n, float A[restrict 100]) {
    int i;
#pragma scop
    for (; i < 10; i++) A[i] = 0.0f;
    for (int i = 0; i < 10; i += 0) A[i] = 0.0f;
    for (int i = 0; i < 10; i += n) A[i] = 0.0f;
    for (int i = 1; i < 10; i *= 2) A[i] = 0.0f;
    for (int i = 0, j = 0; i < 10; i++) A[i] = 0.0f;
#pragma endscop
}
