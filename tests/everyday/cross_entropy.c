#include <math.h>

/* Mean loss over a batch against soft targets. */
void cross_entropy(const double logits[B][K], const double target[B][K], double loss[1])
{
    loss[0] = 0.0;
    for (int b = 0; b < B; b++) {
        double z = 0.0, dot = 0.0;
        for (int k = 0; k < K; k++) {
            z += exp(logits[b][k]);
            dot += target[b][k] * logits[b][k];
        }
        loss[0] += (log(z) - dot) / B;
    }
}
