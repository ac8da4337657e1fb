// expect: 6:9: subscript 1 of 'A' leaves its bounds: it is 10 at i = 10, j = 0
// expect: 7:21: subscript 2 of 'A' leaves its bounds: it is -1 at i = 0, j = 0
void f(float A[10][5]) {
#pragma scop
    for (int i = 0; i <= 10; i++) for (int j = 0; j < 5; j++) {
        A[i][j] = 0.0f;
        if (i == 0) A[i][j - 1] = 0.0f;
    }
#pragma endscop
}
