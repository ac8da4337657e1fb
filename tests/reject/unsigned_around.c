// expect: 5:27: the loop over 'i' may never end
// Behind 0 comes the greatest value, of which the condition holds as well.
void f(int x[64]) {
#pragma scop
    for (unsigned i = 63; i != 80; --i)
        x[i % 64u] = 2;
#pragma endscop
}
