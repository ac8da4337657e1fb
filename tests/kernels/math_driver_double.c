/* Largest errors of the vector functions of doubles against libm's in long double. After the prologues. */
#include <math.h>
#include <stdint.h>
#include <string.h>

static double ulps(double got, long double want)
{
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isnan(got)) return INFINITY;
    if (fabsl(want) >= 0x1.fffffffffffff8p1023L) return isinf(got) && (got > 0) == (want > 0) ? 0 : INFINITY;
    if (got == 0 && want == 0) return !signbit(got) == !signbit(want) ? 0 : INFINITY;
    if (isinf(got)) return INFINITY;
    int exponent;
    frexpl(want, &exponent);
    if (exponent < -1021) exponent = -1021;
    return (double)(fabsl((long double)got - want) / ldexpl(1, exponent - 53));
}

static double from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define SCAN(name)                                                                                           \
    double scan_##name(uint64_t start, uint64_t count, uint64_t step, double *where)                        \
    {                                                                                                        \
        double worst = 0;                                                                                    \
        double in[POLYDL_F64_LANES], out[POLYDL_F64_LANES];                                                  \
        for (uint64_t i = 0; i < count; i += POLYDL_F64_LANES) {                                             \
            for (int lane = 0; lane < POLYDL_F64_LANES; lane++)                                              \
                in[lane] = from_bits(start + (i + (uint64_t)lane) * step);                                   \
            polydl_f64_store(out, polydl_f64_##name(polydl_f64_load(in)));                                   \
            for (int lane = 0; lane < POLYDL_F64_LANES; lane++) {                                            \
                const double error = ulps(out[lane], name##l(in[lane]));                                     \
                if (error > worst) {                                                                         \
                    worst = error;                                                                           \
                    *where = in[lane];                                                                       \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        return worst;                                                                                        \
    }
SCAN(exp)
SCAN(tanh)
SCAN(erf)
SCAN(exp2)
SCAN(expm1)
SCAN(log)
SCAN(log1p)
SCAN(log2)
SCAN(log10)
SCAN(sin)
SCAN(cos)
SCAN(erfc)
SCAN(sqrt)
#define absl fabsl
SCAN(abs)
SCAN(floor)
SCAN(ceil)
SCAN(trunc)
SCAN(rint)
SCAN(nearbyint)
SCAN(round)
