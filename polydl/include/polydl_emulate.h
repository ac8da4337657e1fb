/* The dot products of AVX512_VNNI and AVX512_BF16 in scalar code, bit for bit, one lane each: compile with
   -DPOLYDL_EMULATE and the folder of this header among the include folders, on any machine.
   After the operations in Intel's Software Developer's Manual, volume 2. */
#ifndef POLYDL_EMULATE_H
#define POLYDL_EMULATE_H
#include <stdint.h>
#include <string.h>
/* VPDPWSSD: two products of signed words are added to a doubleword, without saturation. */
static inline __attribute__((unused)) uint32_t polydl_emulated_dpwssd(uint32_t z, uint32_t x, uint32_t y)
{
    for (int i = 0; i < 2; i++) {
        const int16_t a = (int16_t)(uint16_t)(x >> 16 * i), b = (int16_t)(uint16_t)(y >> 16 * i);
        z += (uint32_t)((int32_t)a * b);
    }
    return z;
}
/* VPDPBUSD: four products of unsigned bytes of x and signed bytes of y are added to a doubleword, without saturation. */
static inline __attribute__((unused)) uint32_t polydl_emulated_dpbusd(uint32_t z, uint32_t x, uint32_t y)
{
    for (int i = 0; i < 4; i++) {
        const uint8_t a = (uint8_t)(x >> 8 * i);
        const int8_t b = (int8_t)(uint8_t)(y >> 8 * i);
        z += (uint32_t)((int32_t)a * b);
    }
    return z;
}
static inline __attribute__((unused)) float polydl_emulated_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
/* Denormals as zeros of their sign. */
static inline __attribute__((unused)) uint32_t polydl_emulated_flushed(uint32_t bits)
{
    return bits & 0x7f800000 ? bits : bits & 0x80000000;
}
static inline __attribute__((unused)) int polydl_emulated_is_nan(uint32_t bits)
{
    return (bits & 0x7fffffff) > 0x7f800000;
}
/* VDPBF16PS of bits: the product of the upper bf16 is added, then that of the lower ones, each sum rounded once, to
   nearest even; denormal operands and sums are zeros. Of NaNs that of x counts, then that of y, then that of z, made
   quiet; one that has no other cause is the negative one of hardware. The rounding mode has to be that of C's start. */
static inline __attribute__((unused)) uint32_t polydl_emulated_dpbf16ps_bits(uint32_t z, uint32_t x, uint32_t y)
{
    for (int i = 1; i >= 0; i--) {
        const uint32_t a = polydl_emulated_flushed(i ? x & 0xffff0000 : x << 16);
        const uint32_t b = polydl_emulated_flushed(i ? y & 0xffff0000 : y << 16), c = polydl_emulated_flushed(z);
        if (polydl_emulated_is_nan(a) || polydl_emulated_is_nan(b) || polydl_emulated_is_nan(c)) {
            z = (polydl_emulated_is_nan(a) ? a : polydl_emulated_is_nan(b) ? b : c) | 0x400000;
            continue;
        }
        const float sum = __builtin_fmaf(
            polydl_emulated_of_bits(a), polydl_emulated_of_bits(b), polydl_emulated_of_bits(c));
        memcpy(&z, &sum, sizeof z);
        z = polydl_emulated_is_nan(z) ? 0xffc00000 : polydl_emulated_flushed(z);
    }
    return z;
}
static inline __attribute__((unused)) float polydl_emulated_dpbf16ps(float z, uint32_t x, uint32_t y)
{
    uint32_t bits;
    memcpy(&bits, &z, sizeof bits);
    return polydl_emulated_of_bits(polydl_emulated_dpbf16ps_bits(bits, x, y));
}
#endif
