// expect: 7:11: the subscript depends on data: 'k' may leave the range of 'unsigned char' where it begins, or as it counts
void f(int n, int m, int *restrict y)
{
    unsigned char k = n;
#pragma scop
    for (int i = 0; i < m; i++) {
        y[k] += i;
        k += 3;
    }
#pragma endscop
}
