// expect: 5:10: the value of the loop variable 'i' is used after the scop
int f(float A[100]) {
    int i;
#pragma scop
    for (i = 0; i < 100; i++)
        A[i] = 0.0f;
#pragma endscop
    return i;
}
