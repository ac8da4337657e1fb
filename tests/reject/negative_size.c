// expect: 3:14: dimension 1 of 'A' has the size -5
#define N (-5)
void f(float A[restrict N][4]) {
#pragma scop
    for (int i = 0; i < N; i++)
        A[i][0] = 0.0f;
#pragma endscop
}
