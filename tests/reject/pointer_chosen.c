// expect: 6:30: 'at' decides where the pointer 'other' points, and changes in the region
void f(const int first[restrict 8], int at[restrict 8], float A[restrict 8][8], float x[restrict 8])
{
#pragma scop
    for (int i = 0; i < 8; i++) {
        const float *other = A[at[i]];
        at[i] = 0;
        x[i] = A[0][i];
    }
#pragma endscop
}
