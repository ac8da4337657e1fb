// expect: 1:1: the file has no scop
int f(int x)
{
    return x + 1;
}
