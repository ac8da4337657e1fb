// expect: 4:21: the loop over 'i' may never end
void f(float A[300]) {
#pragma scop
    for (int i = 0; i != 7; i += 2)
        A[i] = 0.0f;
#pragma endscop
}
