#include <stdint.h>
#define SAT16(v) ((v) > INT16_MAX ? INT16_MAX : (v) < INT16_MIN ? INT16_MIN : (v))

/* Two tracks of 16-bit audio with their own volumes, added without wrapping round. */
void mix_saturating(int16_t *restrict out, const int16_t *restrict a, const int16_t *restrict b, int n, int va, int vb)
{
    for (int i = 0; i < n; i++) {
        int32_t s = (a[i] * va + b[i] * vb) >> 8;
        out[i] = SAT16(s);
    }
}
