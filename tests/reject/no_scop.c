// expect: 9:5: 'g' does more than run for loops: this stands beside them
// expect: 3:5: 'f' has no loop
int f(int x)
{
    return x + 1;
}
int g(int n, float *x)
{
    while (n-- > 0)
        x[n] = 0.0f;
    return 0;
}
