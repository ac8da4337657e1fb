/* Largest errors of vector functions over floats given by their bits, against libm in double. After the prologues. */
#include <math.h>
#include <stdint.h>
#include <string.h>

static double ref_exp(double x) { return exp(x); }
static double ref_tanh(double x) { return tanh(x); }
static double ref_erf(double x) { return erf(x); }
static double ref_erfc(double x) { return erfc(x); }
static double ref_abs(double x) { return fabs(x); }
static double ref_sqrt(double x) { return sqrt(x); }
static double ref_floor(double x) { return floor(x); }
static double ref_ceil(double x) { return ceil(x); }
static double ref_trunc(double x) { return trunc(x); }
static double ref_rint(double x) { return rint(x); }
static double ref_nearbyint(double x) { return nearbyint(x); }
static double ref_round(double x) { return round(x); }
static double ref_exp2(double x) { return exp2(x); }
static double ref_expm1(double x) { return expm1(x); }
static double ref_log(double x) { return log(x); }
static double ref_log1p(double x) { return log1p(x); }
static double ref_log2(double x) { return log2(x); }
static double ref_log10(double x) { return log10(x); }
static double ref_sin(double x) { return sin(x); }
static double ref_cos(double x) { return cos(x); }
static double ref_tanh_plus_one(double x) { return x < 0 ? 2 * exp(2 * x) / (exp(2 * x) + 1) : 1 + tanh(x); }
static double ref_tanh_plus_one_short(double x) { return ref_tanh_plus_one(x); }
static double ref_exp_short(double x) { return exp(x); }
static double ref_tanh_short(double x) { return tanh(x); }
static double ref_erf_short(double x) { return erf(x); }

/* Units in the last place of the float next to `want` by which `got` is off. */
static double ulps(float got, double want)
{
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isnan(got)) return INFINITY;
    if (isinf(want)) return (double)got == want ? 0 : INFINITY;
    if (got == 0 && want == 0) return !signbit(got) == !signbit(want) ? 0 : INFINITY;
    const double largest = 0x1.fffffep127;
    if (isinf(got)) return fabs(want) > largest ? (fabs(want) >= largest + 0x1p103 ? 0 : 1) : (largest - fabs(want)) / 0x1p104 + 1;
    uint64_t bits;
    memcpy(&bits, &want, sizeof bits);
    int exponent = (int)(bits >> 52 & 2047) - 1022; /* as of frexp */
    exponent = exponent < -125 ? -125 : exponent;
    bits = (uint64_t)(1023 + 24 - exponent) << 52;
    double units;
    memcpy(&units, &bits, sizeof units);
    return fabs((double)got - want) * units;
}

static float from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

#define SCAN(name)                                                                                           \
    double scan_##name(uint64_t start, uint64_t count, uint64_t step, uint32_t *where)                      \
    {                                                                                                        \
        double worst = 0;                                                                                    \
        float in[POLYDL_F32_LANES], out[POLYDL_F32_LANES];                                                   \
        for (uint64_t i = 0; i < count; i += POLYDL_F32_LANES) {                                             \
            for (int lane = 0; lane < POLYDL_F32_LANES; lane++)                                              \
                in[lane] = from_bits((uint32_t)(start + (i + (uint64_t)lane) * step));                       \
            polydl_f32_store(out, polydl_f32_##name(polydl_f32_load(in)));                                   \
            for (int lane = 0; lane < POLYDL_F32_LANES; lane++) {                                            \
                const double error = ulps(out[lane], ref_##name(in[lane]));                                  \
                if (error > worst) {                                                                         \
                    worst = error;                                                                           \
                    memcpy(where, &in[lane], sizeof *where);                                                 \
                }                                                                                            \
            }                                                                                                \
        }                                                                                                    \
        return worst;                                                                                        \
    }
SCAN(exp)
SCAN(tanh)
SCAN(erf)
SCAN(erfc)
SCAN(abs)
SCAN(sqrt)
SCAN(floor)
SCAN(ceil)
SCAN(trunc)
SCAN(rint)
SCAN(round)
SCAN(nearbyint)
SCAN(exp2)
SCAN(expm1)
SCAN(log)
SCAN(log1p)
SCAN(log2)
SCAN(log10)
SCAN(sin)
SCAN(cos)
SCAN(tanh_plus_one)
SCAN(tanh_plus_one_short)
SCAN(exp_short)
SCAN(tanh_short)
SCAN(erf_short)

static uint64_t mixed(uint64_t x) /* splitmix64 */
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}
/* Pairs from `start` on: of any bits or, one of two, of a positive x and a y whose power is between 2^-150 and 2^128. */
double scan_pow(uint64_t start, uint64_t count, float *where)
{
    double worst = 0;
    float x[POLYDL_F32_LANES], y[POLYDL_F32_LANES], out[POLYDL_F32_LANES];
    for (uint64_t i = 0; i < count; i += POLYDL_F32_LANES) {
        for (int lane = 0; lane < POLYDL_F32_LANES; lane++) {
            const uint64_t bits = mixed(start + i + (uint64_t)lane);
            x[lane] = from_bits((uint32_t)bits);
            y[lane] = from_bits((uint32_t)(bits >> 32));
            if ((i / POLYDL_F32_LANES) % 2) {
                x[lane] = fabsf(x[lane]);
                /* Half of them close to 1, where the exponents are large. */
                if (bits & 1) x[lane] = 1 + ldexpf(x[lane] == x[lane] ? frexpf(x[lane], &(int){ 0 }) - 0.75f : 0, -(int)(bits >> 1 & 15));
                y[lane] = (float)((ldexp((double)(uint32_t)(bits >> 32), -32) * 280 - 151) / log2(x[lane]));
            }
        }
        polydl_f32_store(out, polydl_f32_pow(polydl_f32_load(x), polydl_f32_load(y)));
        for (int lane = 0; lane < POLYDL_F32_LANES; lane++) {
            const double error = ulps(out[lane], pow(x[lane], y[lane]));
            if (error > worst) {
                worst = error;
                where[0] = x[lane];
                where[1] = y[lane];
            }
        }
    }
    return worst;
}
void apply_pow(const float *x, const float *y, float *out) { polydl_f32_store(out, polydl_f32_pow(polydl_f32_load(x), polydl_f32_load(y))); }
void apply_fmax(const float *x, const float *y, float *out) { polydl_f32_store(out, polydl_f32_fmax(polydl_f32_load(x), polydl_f32_load(y))); }
void apply_fmin(const float *x, const float *y, float *out) { polydl_f32_store(out, polydl_f32_fmin(polydl_f32_load(x), polydl_f32_load(y))); }
int lanes(void) { return POLYDL_F32_LANES; }
