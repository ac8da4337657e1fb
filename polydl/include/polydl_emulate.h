/* The dot products of AVX512_VNNI and AVX512_BF16 in scalar code, bit for bit, one lane each, and the tiles of AMX_BF16
   and AMX_INT8: compile with -DPOLYDL_EMULATE and the folder of this header among the include folders, on any machine.
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
/* TDPBUSD: bytes of a are unsigned, those of b signed; TDPBSUD: the other way round. Nothing saturates. */
static inline __attribute__((unused)) void polydl_emulated_tdpbusd(int sums, int a, int b)
{
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 16; j++)
                polydl_emulated_tiles[sums][i][j] = polydl_emulated_dpbusd(
                    polydl_emulated_tiles[sums][i][j], polydl_emulated_tiles[a][i][k], polydl_emulated_tiles[b][k][j]);
}
static inline __attribute__((unused)) void polydl_emulated_tdpbsud(int sums, int a, int b)
{
    for (int i = 0; i < 16; i++)
        for (int k = 0; k < 16; k++)
            for (int j = 0; j < 16; j++)
                polydl_emulated_tiles[sums][i][j] = polydl_emulated_dpbusd(
                    polydl_emulated_tiles[sums][i][j], polydl_emulated_tiles[b][k][j], polydl_emulated_tiles[a][i][k]);
}
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
#endif
