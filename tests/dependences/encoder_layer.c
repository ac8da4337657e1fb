#include <math.h>

#define S 128   /* tokens */
#define E 768   /* width */
#define H 12    /* heads */
#define D 64    /* width of a head */
#define F 3072  /* width of the inner layer */

/* An encoder layer of BERT (post-norm): attention with a mask on the keys, two additions with normalisation, and two
   linear layers with GELU between them. */
void encoder_layer(const float x[restrict S][E], const float mask[restrict S],
                   const float wq[restrict E][E], const float bq[restrict E],
                   const float wk[restrict E][E], const float bk[restrict E],
                   const float wv[restrict E][E], const float bv[restrict E],
                   const float wo[restrict E][E], const float bo[restrict E],
                   const float g1[restrict E], const float n1[restrict E],
                   const float w1[restrict E][F], const float b1[restrict F],
                   const float w2[restrict F][E], const float b2[restrict E],
                   const float g2[restrict E], const float n2[restrict E], float out[restrict S][E])
{
    static float q[S][E], k[S][E], v[S][E], p[H][S][S], o[S][E], a[S][E], h[S][F], f[S][E];
    static float top[H][S], sum[H][S], mean1[S], var1[S], mean2[S], var2[S], y[S][E];

    for (int i = 0; i < S; i++)
        for (int j = 0; j < E; j++) {
            q[i][j] = bq[j];
            for (int l = 0; l < E; l++)
                q[i][j] += x[i][l] * wq[l][j];
        }
    for (int i = 0; i < S; i++)
        for (int j = 0; j < E; j++) {
            k[i][j] = bk[j];
            for (int l = 0; l < E; l++)
                k[i][j] += x[i][l] * wk[l][j];
        }
    for (int i = 0; i < S; i++)
        for (int j = 0; j < E; j++) {
            v[i][j] = bv[j];
            for (int l = 0; l < E; l++)
                v[i][j] += x[i][l] * wv[l][j];
        }
    for (int b = 0; b < H; b++)
        for (int i = 0; i < S; i++) {
            for (int j = 0; j < S; j++) {
                p[b][i][j] = 0.0f;
                for (int d = 0; d < D; d++)
                    p[b][i][j] += q[i][b * D + d] * k[j][b * D + d];
                p[b][i][j] = p[b][i][j] * 0.125f + mask[j];
            }
            top[b][i] = p[b][i][0];
            for (int j = 0; j < S; j++)
                top[b][i] = fmaxf(top[b][i], p[b][i][j]);
            sum[b][i] = 0.0f;
            for (int j = 0; j < S; j++) {
                p[b][i][j] = expf(p[b][i][j] - top[b][i]);
                sum[b][i] += p[b][i][j];
            }
            for (int j = 0; j < S; j++)
                p[b][i][j] /= sum[b][i];
        }
    for (int b = 0; b < H; b++)
        for (int i = 0; i < S; i++)
            for (int d = 0; d < D; d++) {
                o[i][b * D + d] = 0.0f;
                for (int j = 0; j < S; j++)
                    o[i][b * D + d] += p[b][i][j] * v[j][b * D + d];
            }
    for (int i = 0; i < S; i++)
        for (int j = 0; j < E; j++) {
            a[i][j] = bo[j] + x[i][j];
            for (int l = 0; l < E; l++)
                a[i][j] += o[i][l] * wo[l][j];
        }
    for (int i = 0; i < S; i++) {
        mean1[i] = 0.0f;
        for (int j = 0; j < E; j++)
            mean1[i] += a[i][j];
        mean1[i] /= E;
        var1[i] = 0.0f;
        for (int j = 0; j < E; j++)
            var1[i] += (a[i][j] - mean1[i]) * (a[i][j] - mean1[i]);
        var1[i] = 1.0f / sqrtf(var1[i] / E + 1e-12f);
        for (int j = 0; j < E; j++)
            y[i][j] = (a[i][j] - mean1[i]) * var1[i] * g1[j] + n1[j];
    }
    for (int i = 0; i < S; i++)
        for (int j = 0; j < F; j++) {
            h[i][j] = b1[j];
            for (int l = 0; l < E; l++)
                h[i][j] += y[i][l] * w1[l][j];
        }
    for (int i = 0; i < S; i++)
        for (int j = 0; j < F; j++)
            h[i][j] = 0.5f * h[i][j] * (1.0f + erff(h[i][j] * 0.70710678f));
    for (int i = 0; i < S; i++)
        for (int j = 0; j < E; j++) {
            f[i][j] = b2[j] + y[i][j];
            for (int l = 0; l < F; l++)
                f[i][j] += h[i][l] * w2[l][j];
        }
    for (int i = 0; i < S; i++) {
        mean2[i] = 0.0f;
        for (int j = 0; j < E; j++)
            mean2[i] += f[i][j];
        mean2[i] /= E;
        var2[i] = 0.0f;
        for (int j = 0; j < E; j++)
            var2[i] += (f[i][j] - mean2[i]) * (f[i][j] - mean2[i]);
        var2[i] = 1.0f / sqrtf(var2[i] / E + 1e-12f);
        for (int j = 0; j < E; j++)
            out[i][j] = (f[i][j] - mean2[i]) * var2[i] * g2[j] + n2[j];
    }
}
