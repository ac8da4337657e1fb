// expect: 8:15: the subscript depends on data: 'k' counts across loops that do not run equally often each time
void f(int n, const double A[n][n], double *restrict p)
{
    int k = 0;
#pragma scop
    for (int i = 0; i < n; i++)
        for (int j = 2 * i; j < n; j++)
            p[k++] = A[i][j];
#pragma endscop
}
