/* copysign and fabs through a union. */
#include <stdint.h>

void sign_union(float out[restrict N], const float size[restrict N], const float sign[restrict N])
{
    for (int i = 0; i < N; i++) {
        union {
            float f;
            uint32_t u;
        } a = {.f = size[i]}, b;
        b.f = sign[i];
        a.u = (a.u & 0x7fffffffu) | (b.u & 0x80000000u);
        out[i] = a.f;
    }
}
