// expect: 6:18: the loop variable 'i' is already that of an outer loop
// expect: 8:15: 'A' hides another 'A'
void f(float A[100]) {
#pragma scop
    for (int i = 0; i < 10; i++)
        for (int i = 0; i < 10; i++)
            A[i] = 0.0f;
    { float   A = 0.0f; }
#pragma endscop
}
