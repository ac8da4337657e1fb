// expect: 6:18: members of 'p' of the types 'float' and 'int' are used in one region
struct point { float x, y; int kind; };
void f(struct point p[100]) {
#pragma scop
    for (int i = 0; i < 10; i++)
        p[i].x = p[i].kind;
#pragma endscop
}
