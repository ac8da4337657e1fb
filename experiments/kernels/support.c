/* What the harness needs that Python cannot do: the FMA peak, the memory bandwidth, flushing the caches. */
#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
typedef float vec __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));

/* Independent chains: enough to cover the latency of every FMA unit, few enough to stay in registers. */
#define CHAINS 12

/* Runs `steps` times CHAINS fused multiply-adds on full vectors, in every thread. Returns the operations done, a
   multiplication and an addition counting as two; `*sink` keeps the compiler from dropping them. */
double fma_peak(long steps, float *sink)
{
    double operations = 0;
    float total = 0;
#pragma omp parallel reduction(+ : operations, total)
    {
        vec sums[CHAINS];
        vec factor, addend;
        for (int lane = 0; lane < LANES; lane++) {
            factor[lane] = 0.999f;
            addend[lane] = 0.001f;
        }
        for (int c = 0; c < CHAINS; c++)
            sums[c] = addend * (float)c;
        for (long step = 0; step < steps; step++) {
#pragma GCC unroll 16
            for (int c = 0; c < CHAINS; c++) {
                sums[c] = sums[c] * factor + addend;
                /* A register operand: the chain can be neither vectorised across steps nor moved to memory. */
                __asm__ volatile("" : "+v"(sums[c]));
            }
        }
        for (int c = 0; c < CHAINS; c++)
            for (int lane = 0; lane < LANES; lane++)
                total += sums[c][lane];
        operations += 2.0 * LANES * CHAINS * (double)steps;
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

/* Adds 1 to `count` floats with every thread: a buffer larger than all caches takes everything else out of them. */
void touch_all(float *data, long count)
{
#pragma omp parallel for simd
    for (long i = 0; i < count; i++)
        data[i] += 1.0f;
}
