#include <float.h>

/* Where the largest of four is, as one number, as the way back needs it. */
void max_pool_index(int in_height, int in_width, const float *in, float *out, int *where)
{
    int out_height = in_height / 2, out_width = in_width / 2;
    for (int y = 0; y < out_height; y++)
        for (int x = 0; x < out_width; x++) {
            float best = -FLT_MAX;
            int at = -1;
            for (int dy = 0; dy < 2; dy++)
                for (int dx = 0; dx < 2; dx++) {
                    int here = (2 * y + dy) * in_width + 2 * x + dx;
                    if (in[here] > best) {
                        best = in[here];
                        at = here;
                    }
                }
            out[y * out_width + x] = best;
            where[y * out_width + x] = at;
        }
}
