// expect: 6:1: this is not C that can be read: syntax error before '}'
void f(int n, float x[n])
{
    for (int i = 0; i < n; i++)
        x[i] = x[i] * 2
}
