// expect: 5:11: 'y' points into 'x', which the region uses too
// What is restrict is reached through pointers that are made from it all the same.
void reversed(float x[restrict 8])
{
    float *y = x;
#pragma scop
    for (int i = 0; i < 8; i++)
        x[i] = y[7 - i];
#pragma endscop
}
