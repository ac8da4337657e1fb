// expect: 9:9: 'port' is volatile
// expect: 10:5: the loop variable 'j' is volatile
// expect: 13:13: 'flag' is volatile
typedef volatile float port_t;
volatile int flag;
void f(port_t *port, float A[10]) {
#pragma scop
    for (int i = 0; i < 10; i++)
        port[i] = 0.0f;
    for (volatile int j = 0; j < 10; j++)
        A[j] = 0.0f;
    for (int i = 0; i < 10; i++)
        if (flag)
            A[i] = 1.0f;
#pragma endscop
}
