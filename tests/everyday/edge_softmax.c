/* Softmax of the scores of each node's neighbours, as graph attention has it. */
#include <math.h>

void edge_softmax(const int ptr[M + 1], const float score[M * R], float out[M * R])
{
    for (int i = 0; i < M; i++) {
        float most = -1e30f, sum = 0.0f;
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            most = score[p] > most ? score[p] : most;
        for (int p = ptr[i]; p < ptr[i + 1]; p++) {
            out[p] = expf(score[p] - most);
            sum += out[p];
        }
        for (int p = ptr[i]; p < ptr[i + 1]; p++)
            out[p] /= sum;
    }
}
