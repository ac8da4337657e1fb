// expect: 13:1: this is not C that can be read: syntax error before '}'
// expect: 7:30: 'sum' does more than run for loops: this stands beside them
// expect: 4:7: 'twice' has no loop
float twice(float x) { return x * 2; }
#define WHILE(i, n) while (x[i] < (n))
float sum(int n, const float *x) {
    float s = 0; int i = -1; WHILE(i, n) s += x[i]; return s;
}
void f(int n, float x[n])
{
    for (int i = 0; i < n; i++)
        x[i] = x[i] * 2
}
