// expect: 5:11: 'p' points into 'a', which the region uses too
// expect: 6:20: 'lo' and 'hi' both point into 'b'
void f(int n, float *a, float *b)
{
    float *p = a + 1;
    float *lo = b, *hi = &lo[n];
#pragma scop
    for (int i = 0; i < 9; i++) {
        p[i] = a[i];
        hi[i] = lo[i];
    }
#pragma endscop
}
