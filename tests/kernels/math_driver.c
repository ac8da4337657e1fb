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
static double ref_rsqrt(double x) { return 1 / sqrt(x); }
static double ref_sigmoid(double x) { return x < -40 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)); }
/* At -infinity the limit, where the formula has no value. */
static double ref_gelu(double x) { return x == -INFINITY ? -0.0 : x == INFINITY ? x : 0.5 * x * erfc(-x / 1.4142135623730950488); }
/* --fast-math: exp stays at what it is at its limits. */
static double ref_exp_fast(double x) { return exp(x < -87 ? -87 : x > (double)88.37f ? (double)88.37f : x); }
static double ref_tanh_fast(double x) { return tanh(x); }
static double ref_erf_fast(double x) { return erf(x); }

/* Units in the last place of the float next to `want` by which `got` is off. */
static double ulps(float got, double want)
{
    if (isnan(want)) return isnan(got) ? 0 : INFINITY;
    if (isnan(got)) return INFINITY;
    if (isinf(want)) return (double)got == want ? 0 : INFINITY;
    if (got == 0 && want == 0) return !signbit(got) == !signbit(want) ? 0 : INFINITY;
    const double largest = 0x1.fffffep127;
    if (isinf(got)) return fabs(want) > largest ? (fabs(want) >= largest + 0x1p103 ? 0 : 1) : (largest - fabs(want)) / 0x1p104 + 1;
    int exponent;
    frexp(want, &exponent);
    exponent = exponent < -125 ? -125 : exponent > 128 ? 128 : exponent;
    return fabs((double)got - want) / ldexp(1, exponent - 24);
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
SCAN(rsqrt)
SCAN(sigmoid)
SCAN(gelu)
SCAN(exp_fast)
SCAN(tanh_fast)
SCAN(erf_fast)

void apply_fmax(const float *x, const float *y, float *out) { polydl_f32_store(out, polydl_f32_fmax(polydl_f32_load(x), polydl_f32_load(y))); }
void apply_fmin(const float *x, const float *y, float *out) { polydl_f32_store(out, polydl_f32_fmin(polydl_f32_load(x), polydl_f32_load(y))); }
int lanes(void) { return POLYDL_F32_LANES; }
