/* The dot products of AVX512_VNNI and AVX512_BF16 in scalar code, bit for bit, one lane each, the tiles of AMX_BF16 and
   AMX_INT8, and the blocks of FEAT_I8MM and FEAT_BF16: compile with -DPOLYDL_EMULATE and the folder of this header among
   the include folders, on any machine. After the operations in Intel's Software Developer's Manual, volume 2, and in the
   Arm Architecture Reference Manual. */
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
/* One fused multiplication and addition of bits, rounded to nearest even; denormal operands and sums are
   zeros. Of NaNs that of x counts, then that of y, then that of z, made quiet; one that has no other cause is the
   negative one of hardware. The rounding mode has to be that of C's start. */
static inline __attribute__((unused)) uint32_t polydl_emulated_fma(uint32_t z, uint32_t x, uint32_t y)
{
    const uint32_t a = polydl_emulated_flushed(x), b = polydl_emulated_flushed(y), c = polydl_emulated_flushed(z);
    if (polydl_emulated_is_nan(a) || polydl_emulated_is_nan(b) || polydl_emulated_is_nan(c))
        return (polydl_emulated_is_nan(a) ? a : polydl_emulated_is_nan(b) ? b : c) | 0x400000;
    const float sum = __builtin_fmaf(
        polydl_emulated_of_bits(a), polydl_emulated_of_bits(b), polydl_emulated_of_bits(c));
    memcpy(&z, &sum, sizeof z);
    return polydl_emulated_is_nan(z) ? 0xffc00000 : polydl_emulated_flushed(z);
}
/* VDPBF16PS of bits: the product of the upper bf16 is added, then that of the lower ones, each sum rounded once. */
static inline __attribute__((unused)) uint32_t polydl_emulated_dpbf16ps_bits(uint32_t z, uint32_t x, uint32_t y)
{
    z = polydl_emulated_fma(z, x & 0xffff0000, y & 0xffff0000);
    return polydl_emulated_fma(z, x << 16, y << 16);
}
static inline __attribute__((unused)) float polydl_emulated_dpbf16ps(float z, uint32_t x, uint32_t y)
{
    uint32_t bits;
    memcpy(&bits, &z, sizeof bits);
    return polydl_emulated_of_bits(polydl_emulated_dpbf16ps_bits(bits, x, y));
}
/* Tiles: eight of 16 rows of 16 words for each thread. */
static _Thread_local __attribute__((unused)) uint32_t polydl_emulated_tiles[8][16][16];
static inline __attribute__((unused)) void polydl_emulated_tile_zero(int to)
{
    memset(polydl_emulated_tiles[to], 0, sizeof polydl_emulated_tiles[to]);
}
static inline __attribute__((unused)) void polydl_emulated_tile_load(int to, const void *from, long bytes)
{
    for (int i = 0; i < 16; i++) memcpy(polydl_emulated_tiles[to][i], (const char *)from + i * bytes, 64);
}
static inline __attribute__((unused)) void polydl_emulated_tile_store(int from, void *to, long bytes)
{
    for (int i = 0; i < 16; i++) memcpy((char *)to + i * bytes, polydl_emulated_tiles[from][i], 64);
}
/* Products of bytes, signed or not of a and of b. Nothing saturates. */
static inline __attribute__((unused)) void polydl_emulated_tile_bytes(int sums, int a, int b, int a_signed, int b_signed)
{
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 16; j++)
                for (int byte = 0; byte < 4; byte++) {
                    const uint8_t x = (uint8_t)(polydl_emulated_tiles[a][i][k] >> 8 * byte);
                    const uint8_t y = (uint8_t)(polydl_emulated_tiles[b][k][j] >> 8 * byte);
                    polydl_emulated_tiles[sums][i][j] +=
                        (uint32_t)((a_signed ? (int8_t)x : x) * (b_signed ? (int8_t)y : y));
                }
}
#define POLYDL_EMULATED_TDPB(name, a_signed, b_signed) \
    static inline __attribute__((unused)) void polydl_emulated_##name(int sums, int a, int b) \
    { \
        polydl_emulated_tile_bytes(sums, a, b, a_signed, b_signed); \
    }
POLYDL_EMULATED_TDPB(tdpbusd, 0, 1)
POLYDL_EMULATED_TDPB(tdpbsud, 1, 0)
POLYDL_EMULATED_TDPB(tdpbssd, 1, 1)
POLYDL_EMULATED_TDPB(tdpbuud, 0, 0)
/* TDPBF16PS: products of the lower bf16 of all words are added up from zero, those of the upper ones apart; their sum is
   added to the old one. Every addition is rounded to nearest even; denormal operands and sums are zeros. */
static inline __attribute__((unused)) void polydl_emulated_tdpbf16ps(int sums, int a, int b)
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            uint32_t low = 0, high = 0;
            for (int k = 0; k < 16; k++) {
                const uint32_t x = polydl_emulated_tiles[a][i][k], y = polydl_emulated_tiles[b][k][j];
                low = polydl_emulated_fma(low, x << 16, y << 16);
                high = polydl_emulated_fma(high, x & 0xffff0000, y & 0xffff0000);
            }
            const uint32_t one = 0x3f800000, both = polydl_emulated_fma(high, low, one);
            polydl_emulated_tiles[sums][i][j] = polydl_emulated_fma(both, polydl_emulated_tiles[sums][i][j], one);
        }
}
/* SMMLA, UMMLA, USMMLA: to the sums z, rows of x times columns of y, those of eight bytes; nothing saturates. */
static inline __attribute__((unused)) void polydl_emulated_blocks(
    uint32_t *z, const uint32_t *x, const uint32_t *y, int x_signed, int y_signed)
{
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            for (int k = 0; k < 8; k++) {
                const uint8_t a = (uint8_t)(x[2 * i + k / 4] >> k % 4 * 8), b = (uint8_t)(y[2 * j + k / 4] >> k % 4 * 8);
                z[2 * i + j] += (uint32_t)((x_signed ? (int8_t)a : a) * (y_signed ? (int8_t)b : b));
            }
}
#define POLYDL_EMULATED_BLOCKS(name, x_signed, y_signed) \
    static inline __attribute__((unused)) void polydl_emulated_##name(uint32_t *z, const uint32_t *x, const uint32_t *y) \
    { \
        polydl_emulated_blocks(z, x, y, x_signed, y_signed); \
    }
POLYDL_EMULATED_BLOCKS(smmla, 1, 1)
POLYDL_EMULATED_BLOCKS(ummla, 0, 0)
POLYDL_EMULATED_BLOCKS(usmmla, 0, 1)
/* The sum of two doubles as bits of a float, rounded to odd: what is not exact ends in a one, so that it is never halfway
   between two others. Denormal sums are zeros. `a` and `b` have the precision of floats, or less than twice that. */
static inline __attribute__((unused)) uint32_t polydl_emulated_odd(double a, double b)
{
    double sum = a + b;
    const double other = sum - a, rest = (a - (sum - other)) + (b - other);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (sum != sum) return 0x7fc00000;
    if (sum - sum == 0 && rest != 0 && (rest < 0) != (sum < 0)) bits--; /* towards zero */
    const uint32_t sign = (uint32_t)(bits >> 32) & 0x80000000;
    const int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    if (exponent < -126) return sign;
    if (exponent > 127) return sign | 0x7f800000;
    const int inexact = (bits & 0x1fffffff) != 0 || (sum - sum == 0 && rest != 0);
    return sign | (uint32_t)(exponent + 127) << 23 | (uint32_t)(bits >> 29 & 0x7fffff) | (uint32_t)inexact;
}
/* BFDOT without FEAT_EBF16: both products, their sum, and its sum with z, each rounded to odd; denormal numbers are
   zeros, NaNs the default one. */
static inline __attribute__((unused)) uint32_t polydl_emulated_bfdot(uint32_t z, uint32_t x, uint32_t y)
{
    uint32_t products[2];
    for (int half = 0; half < 2; half++) {
        const uint32_t a = half ? x & 0xffff0000 : x << 16, b = half ? y & 0xffff0000 : y << 16;
        products[half] = polydl_emulated_odd(
            (double)polydl_emulated_of_bits(polydl_emulated_flushed(a)) *
                (double)polydl_emulated_of_bits(polydl_emulated_flushed(b)), -0.0);
    }
    const uint32_t both = polydl_emulated_odd(
        (double)polydl_emulated_of_bits(products[0]), (double)polydl_emulated_of_bits(products[1]));
    return polydl_emulated_odd(
        (double)polydl_emulated_of_bits(polydl_emulated_flushed(z)), (double)polydl_emulated_of_bits(both));
}
/* BFMMLA: blocks of sums, each by two BFDOTs. */
static inline __attribute__((unused)) void polydl_emulated_bfmmla(uint32_t *z, const uint32_t *x, const uint32_t *y)
{
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            for (int k = 0; k < 2; k++)
                z[2 * i + j] = polydl_emulated_bfdot(z[2 * i + j], x[2 * i + k], y[2 * j + k]);
}
#endif
