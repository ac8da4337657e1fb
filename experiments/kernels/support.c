/* What the harness needs that Python cannot do: the FMA peak, the memory bandwidth, flushing the caches. */
#include <omp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
typedef float vec __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));

/* Independent chains: enough to cover the latency of every FMA unit, few enough to stay in registers. Each is a variable
   of its own, since an array would live in memory. */
#define FOR_EACH_CHAIN(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11)
#define START(c) vec sum##c = factor * (float)c;
/* The empty assembly keeps a chain in its register and the compiler from computing it otherwise. */
#define STEP(c)                        \
    sum##c = sum##c * factor + addend; \
    __asm__ volatile("" : "+v"(sum##c));
#define COUNT(c) +1
#define ADD(c) all += sum##c;

/* Runs `steps` times as many fused multiply-adds on full vectors as there are chains, in every thread. Returns the
   operations done, a multiplication and an addition counting as two; `*sink` keeps the compiler from dropping them. */
double fma_peak(long steps, float *sink)
{
    double operations = 0;
    float total = 0;
#pragma omp parallel reduction(+ : operations, total)
    {
        const vec factor = (vec){0} + 0.999f, addend = (vec){0} + 0.001f;
        FOR_EACH_CHAIN(START)
        for (long step = 0; step < steps; step++) {
            FOR_EACH_CHAIN(STEP)
        }
        vec all = {0};
        FOR_EACH_CHAIN(ADD)
        for (int lane = 0; lane < LANES; lane++)
            total += all[lane];
        operations += 2.0 * LANES * (FOR_EACH_CHAIN(COUNT)) * (double)steps;
    }
    *sink = total;
    return operations;
}

/* Reads `count` floats with every thread. Returns their sum. */
float read_all(const float *data, long count)
{
    float total = 0;
#pragma omp parallel for simd reduction(+ : total)
    for (long i = 0; i < count; i++)
        total += data[i];
    return total;
}

/* Reads `count` rows of `length` floats, a multiple of four vectors, with every thread. Returns the sum of some. */
float read_rows(const float *data, const int *rows, long count, long length)
{
    float total = 0;
#pragma omp parallel reduction(+ : total)
    {
        vec sum0 = {0}, sum1 = {0}, sum2 = {0}, sum3 = {0};
#pragma omp for schedule(static) nowait
        for (long p = 0; p < count; p++) {
            const float *row = data + rows[p] * length;
            for (long k = 0; k < length; k += 4 * LANES) {
                sum0 += *(const vec *)(row + k);
                sum1 += *(const vec *)(row + k + LANES);
                sum2 += *(const vec *)(row + k + 2 * LANES);
                sum3 += *(const vec *)(row + k + 3 * LANES);
            }
        }
        const vec all = (sum0 + sum1) + (sum2 + sum3);
        for (int lane = 0; lane < LANES; lane++)
            total += all[lane];
    }
    return total;
}

/* Adds 1 to `count` floats with every thread: a buffer larger than all caches takes everything else out of them. */
void touch_all(float *data, long count)
{
#pragma omp parallel for simd
    for (long i = 0; i < count; i++)
        data[i] += 1.0f;
}

/* Copies `count` floats with every thread, its share in one piece: memcpy stores past the caches where that pays. */
void copy_all(float *to, const float *from, long count)
{
#pragma omp parallel
    {
        const long threads = omp_get_num_threads(), piece = (count + threads - 1) / threads;
        const long first = omp_get_thread_num() * piece, last = first + piece < count ? first + piece : count;
        if (first < last)
            memcpy(to + first, from + first, (size_t)(last - first) * sizeof *to);
    }
}
