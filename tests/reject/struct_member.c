// expect: 6:9: struct members are not supported
struct point { float x, y; };
void f(struct point p[100]) {
#pragma scop
    for (int i = 0; i < 10; i++)
        p[i].x = 0.0f;
#pragma endscop
}
