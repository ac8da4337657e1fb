/* Types and conversions for C that polydl reads and for what it writes: cc -I"$(polydl include)" file.c

   bfloat16 is the upper half of a float: its exponent, and 8 bits of significand. Compilers before gcc 13 and clang 17
   have no arithmetic in it, and some have no such type. polydl_bf16 has none anywhere: it is stored, copied, and
   converted by the two functions below.

       void scale(int n, polydl_bf16 y[n], const polydl_bf16 x[n])
       {
           for (int i = 0; i < n; i++) y[i] = polydl_to_bf16(2.0f * polydl_to_float(x[i]));
       }
*/
#ifndef POLYDL_H
#define POLYDL_H

#include <stdint.h>
#include <string.h>

/* A structure, so that the bits are not computed with by mistake. */
typedef struct {
    uint16_t bits;
} polydl_bf16;

/* The same value: every bfloat16 is a float, NaN (with its bits), infinities and denormal numbers too. */
static inline float polydl_to_float(polydl_bf16 x)
{
    const uint32_t bits = (uint32_t)x.bits << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The nearest bfloat16, of two equally near ones the even one, whatever the rounding mode is. Denormal numbers stay.
   A NaN stays one, with its sign and what fits of its bits, and is quiet. */
static inline polydl_bf16 polydl_to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t nearest = bits + 0x7fffu + ((bits >> 16) & 1u);
    const uint32_t kept = (bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : nearest;
    const polydl_bf16 made = { (uint16_t)(kept >> 16) };
    return made;
}

#endif
