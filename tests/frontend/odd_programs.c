/* Programs as old files, generators and people have them, one of each kind, and a main that prints what they compute. */
#include <assert.h>
#include <complex.h>
#include <limits.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#define N 64
static float x[N], y[N], A[N][N], B[N][N];
/* heads as Devito writes them */
void heads(int a, int b, float u[restrict 3][N][N])
{
    for (int time = a, t0 = (time) % (3), t1 = (time + 2) % (3), t2 = (time + 1) % (3); time <= b;
         time += 1, t0 = (time) % (3), t1 = (time + 2) % (3), t2 = (time + 1) % (3))
        for (int i = 1; i < N - 1; i++)
            for (int j = 1; j < N - 1; j++)
                u[t2][i][j] = 2 * u[t0][i][j] - u[t1][i][j] + 0.25f * (u[t0][i + 1][j] + u[t0][i - 1][j]);
}
/* C of 1978 */
void old(n, v, w) int n; float *v, *w;
{
    register i;
    for (i = 0; i < n; i++)
        w[i] = v[i] + 1;
}
/* a function that a macro makes, with a macro for its loop */
#define LOOP(i, n) for (int i = 0; i < (n); ++i)
#define MAKE(name, op) \
    void name(int n, const float *restrict v, float *restrict w) \
    { \
        LOOP(i, n) w[i] = w[i] op v[i]; \
    }
MAKE(plus, +)
MAKE(times, *)
/* attributes of GNU C, a label of its own scope beside */
__attribute__((noinline, hot, nonnull(2))) void attributes(int n, const float *__restrict__ v, float *__restrict w)
{
    float *q __attribute__((aligned(4))) = w;
    __extension__ const float k __attribute__((unused)) = 2;
    for (int i = 0; i < n; i++)
        q[i] += k * v[i];
}
/* a union of structures beside, and one of words in the loop */
union both { struct { short low, high; } half; int32_t all; };
void unions(int n, const float *restrict v, float *restrict w)
{
    union both beside = {.all = n};
    for (int i = 0; i < n; i++) {
        union { float f; uint32_t u; } bits;
        bits.f = v[i];
        bits.u &= 0x7fffffffu;
        w[i] = bits.f;
    }
    w[0] += beside.half.low;
}
void vla(int n, int m, float a[n][m], float b[restrict m][n])
{
    float row[n];
    for (int i = 0; i < n; i++) row[i] = a[i][0];
    for (int j = 0; j < m; j++)
        for (int i = 0; i < n; i++)
            b[j][i] = a[i][j] + row[i];
}
void longs(int n, const float *restrict v, float *restrict w)
{
    long double s = 0;
    for (int i = 0; i < n; i++) s += (long double)v[i];
    for (int i = 0; i < n; i++) w[i] += (float)s;
}
void complexes(int n, const float *restrict v, float *restrict w)
{
    float _Complex s = 0;
    for (int i = 0; i < n; i++) s += v[i] * (float _Complex)I + 1;
    for (int i = 0; i < n; i++) w[i] += crealf(s) + cimagf(s);
}
/* bit-fields beside the loops */
struct flags { unsigned on : 1, level : 4; int : 0; int count; };
void fields(int n, struct flags *f, const float *restrict v, float *restrict w)
{
    f->level = 3;
    for (int i = 0; i < n; i++) w[i] = v[i] * 2;
    f->on = 1;
    f->count += f->level;
}
static inline float clampf(float v, float low, float high) { return v < low ? low : v > high ? high : v; }
static inline int inside(int i, int n) { return i >= 0 && i < n; }
void helpers(int n, const float *restrict v, float *restrict w)
{
    for (int i = 0; i < n; i++)
        for (int k = -2; k <= 2; k++)
            if (inside(i + k, n)) w[i] += clampf(v[i + k], 1, 4);
}
void openmp(int n, const float *restrict v, float *restrict w)
{
    float s = 0;
#pragma omp parallel for reduction(+ : s) schedule(static)
    for (int i = 0; i < n; i++) s += v[i];
#pragma omp parallel for simd
    for (int i = 0; i < n; i++) w[i] += s;
}
void wraps(int n, const float *restrict v, float *restrict w)
{
    for (unsigned i = (unsigned)n; i-- > 0u;) w[i] += v[i];
    for (unsigned char c = 0; c < 40; c++) w[c] += 1;
}
void sizes(size_t n, const float *restrict v, float *restrict w)
{
    for (size_t i = n; i > 0; --i) w[i - 1] += v[n - i];
    for (size_t i = n; i-- != 0;) w[i] += v[i];
}
void strides(int n, const float *restrict v, float *restrict w)
{
    for (int i = n - 1; i >= 0; i -= 3) w[i] = v[n - 1 - i];
    for (int i = 2 * n - 2; i >= 0; i -= 2) w[i / 2] += v[i / 2];
}
static const int8_t table[256] = {[3] = 1, [4] = 2, [5] = -3, [6] = 7};
void lookups(int n, const uint8_t *restrict code, float *restrict w)
{
    for (int i = 0; i < n; i++) w[i] += table[code[i]];
}
int early(int n, const float *restrict v, float *restrict w)
{
    if (n <= 0) return -1;
    if (v == 0) return -2;
    for (int i = 0; i < n; i++) w[i] -= v[i];
    for (int i = 0; i < n; i++)
        if (w[i] > 1e9f) return i;
    return n;
}
void asserts(int n, const float *restrict v, float *restrict w)
{
    for (int i = 0; i < n; i++) {
        assert(i >= 0 && i < n);
        w[i] += 3 * v[i];
    }
}
void volatiles(int n, const float *restrict v, float *restrict w)
{
    volatile int seen = 0;
    for (int i = 0; i < n; i++) w[i] += v[i];
    seen = n;
    for (int i = 0; i < n; i++) seen += i;
    w[0] += (float)(seen % 5);
}
static jmp_buf back;
void jumps(int n, const float *restrict v, float *restrict w)
{
    if (setjmp(back) == 0) {
        for (int i = 0; i < n; i++) w[i] += v[i] * v[i];
        longjmp(back, 1);
    }
    for (int i = 0; i < n; i++) w[i] *= 2;
}
void scopes(int n, const float *restrict v, float *restrict w)
{
    for (int i = 0; i < n; i++) {
        float t = v[i] * 2;
        w[i] += t;
    }
    for (int i = 0; i < n; i++) {
        double t = v[i] / 4;
        { int t = i % 7; w[i] += t; }
        for (int i = 0; i < 3; i++) w[i] += 1;
        if (t > 0.3) { int n = i % 3, t[3] = {1, 2, 3}; w[i] += t[n]; }
        w[i] += t;
    }
    for (int n = 0; n < 5; n++) w[n] += n;
    for (int v = 0; v < n; v++) { short i = v % 9; float n = i; w[v] += n; }
}
static float sum(void)
{
    float s = 0;
    for (int i = 0; i < N; i++) {
        s += (float)(i % 9 + 1) * y[i];
        for (int j = 0; j < N; j++) s += (float)((i + j) % 5) * B[i][j];
    }
    return s;
}
static void reset(void)
{
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i % 7) - 2, y[i] = (float)(i % 5);
        for (int j = 0; j < N; j++) A[i][j] = (float)((i * j) % 3), B[i][j] = (float)((i + j) % 4);
    }
}
int main(void)
{
    static float u[3][N][N];
    static uint8_t code[N];
    struct flags f = {0, 0, 1};
    for (int i = 0; i < 3 * N * N; i++) (&u[0][0][0])[i] = (float)(i % 3);
    for (int i = 0; i < N; i++) code[i] = (uint8_t)(i % 8);
    heads(1, 4, u);
    float s = 0;
    for (int i = 0; i < 3 * N * N; i++) s += (&u[0][0][0])[i];
    printf("heads %.9g\n", s);
#define RUN(call) reset(), call, printf("%s %.9g\n", #call, sum())
    RUN(old(N, x, y)); RUN(plus(N, x, y)); RUN(times(N, x, y)); RUN(attributes(N, x, y)); RUN(unions(N, x, y));
    RUN(vla(N, N, A, B)); RUN(longs(N, x, y)); RUN(complexes(N, x, y)); RUN(fields(N, &f, x, y));
    RUN(helpers(N, x, y)); RUN(openmp(N, x, y)); RUN(wraps(N, x, y)); RUN(sizes(N, x, y)); RUN(strides(N, x, y));
    RUN(lookups(N, code, y)); RUN(early(N, x, y)); RUN(asserts(N, x, y)); RUN(volatiles(N, x, y)); RUN(jumps(N, x, y));
    RUN(scopes(N, x, y));
    printf("%d %d\n", (int)f.level, f.count);
    return 0;
}
