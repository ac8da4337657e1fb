// expect: 4:21: the loop bound is not affine: it multiplies the loop's own variable 'p'
void f(int n, int x[n]) {
#pragma scop
    for (int p = 2; p * p < n; p++)
        x[p] = 2 * x[p];
#pragma endscop
}
