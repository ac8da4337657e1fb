// expect: 6:9: where the members of 'p' lie is not known: it has bit-fields
struct point { float x, y; int kind : 3; };
void f(struct point p[100]) {
#pragma scop
    for (int i = 0; i < 10; i++)
        p[i].x = p[i].y;
#pragma endscop
}
