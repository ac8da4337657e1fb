/* Copies n floats on all threads: past the caches (`past`), or the usual way. */
#include <immintrin.h>
#include <stddef.h>
#include <string.h>

void copy_floats(float *restrict to, const float *restrict from, long n, int past)
{
#pragma omp parallel for schedule(static)
    for (long at = 0; at < n; at += 4096) {
        const long end = n - at < 4096 ? n : at + 4096;
        if (!past || end - at < 4096) {
            memcpy(to + at, from + at, sizeof(float) * (size_t)(end - at));
            continue;
        }
#ifdef __AVX512F__
        for (long i = at; i < end; i += 16)
            _mm512_stream_ps(to + i, _mm512_loadu_ps(from + i));
#else
        for (long i = at; i < end; i += 4)
            _mm_stream_ps(to + i, _mm_loadu_ps(from + i));
#endif
    }
#pragma omp parallel
    _mm_sfence();
}
