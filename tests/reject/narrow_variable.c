// expect: 4:33: 'i' leaves the range of 'unsigned char'
void f(float A[300]) {
#pragma scop
    for (unsigned char i = 0;   i < 300; i++)
        A[i] = 0.0f;
#pragma endscop
}
