// expect: 6:14: the loop variable 'i' is already that of an outer loop
void f(float A[100]) {
    int i;
#pragma scop
    for (i = 0; i < 10; i++)
        for (i = 0; i < 10; i++)
            A[i] = 0.0f;
#pragma endscop
}
