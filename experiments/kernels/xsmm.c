/* LIBXSMM's JIT kernels in the default loop order around them: what the paper calls 'Microkernel'.
   LIBXSMM is column-major: a row-major C += A B is C' += B' A', so its m is our columns and its n our rows. */
#include <libxsmm.h>

static libxsmm_smmfunction dispatch(int m, int n, int k, int lda, int ldb, int ldc)
{
    const float one = 1.0f;
    const int no_flags = 0;
    return libxsmm_smmdispatch(m, n, k, &lda, &ldb, &ldc, &one, &one, &no_flags, NULL);
}

const char *xsmm_target(void)
{
    libxsmm_init();
    return libxsmm_get_target_arch();
}

/* Row-major C[M][N] += A[M][K] B[K][N] in blocks of `block` each way; blocks of C are shared out among threads.
   Returns 0, or 1 when LIBXSMM has no kernel. */
int xsmm_gemm(const float *A, const float *B, float *C, long M, long N, long K, long block)
{
    /* [0]: whole blocks, [1]: what is left; 0 where there are none. */
    const int m[2] = {M >= block ? (int)block : 0, (int)(M % block)};
    const int n[2] = {N >= block ? (int)block : 0, (int)(N % block)};
    const int k[2] = {K >= block ? (int)block : 0, (int)(K % block)};
    libxsmm_smmfunction kernels[2][2][2];
    for (int rm = 0; rm < 2; rm++)
        for (int rn = 0; rn < 2; rn++)
            for (int rk = 0; rk < 2; rk++)
                if (m[rm] && n[rn] && k[rk]) {
                    kernels[rm][rn][rk] = dispatch(n[rn], m[rm], k[rk], (int)N, (int)K, (int)N);
                    if (!kernels[rm][rn][rk])
                        return 1;
                }
#pragma omp parallel for collapse(2)
    for (long i = 0; i < M; i += block)
        for (long j = 0; j < N; j += block)
            for (long k = 0; k < K; k += block)
                kernels[i + block > M][j + block > N][k + block > K](B + k * N + j, A + i * K + k, C + i * N + j);
    return 0;
}

/* The loops of conv.c, outermost first, with a kernel for oi, ofm, ifm; images and blocks of output channels are
   shared out among threads. Returns 0, or 1 when LIBXSMM has no kernel. */
int xsmm_conv(float *output, const float *input, const float *filter, long images, long ofm_tiles, long ifm_tiles,
              long ofh, long ofw, long kh, long kw, long stride, long ofm_block, long ifm_block)
{
    const long ifh = (ofh - 1) * stride + kh, ifw = (ofw - 1) * stride + kw;
    const libxsmm_smmfunction kernel =
        dispatch((int)ofm_block, (int)ofw, (int)ifm_block, (int)ofm_block, (int)(stride * ifm_block), (int)ofm_block);
    if (!kernel)
        return 1;
#pragma omp parallel for collapse(2)
    for (long img = 0; img < images; img++)
        for (long ot = 0; ot < ofm_tiles; ot++)
            for (long it = 0; it < ifm_tiles; it++)
                for (long oj = 0; oj < ofh; oj++)
                    for (long kj = 0; kj < kh; kj++)
                        for (long ki = 0; ki < kw; ki++)
                            kernel(filter + (((ot * ifm_tiles + it) * kh + kj) * kw + ki) * ifm_block * ofm_block,
                                   input + (((img * ifm_tiles + it) * ifh + oj * stride + kj) * ifw + ki) * ifm_block,
                                   output + ((img * ofm_tiles + ot) * ofh + oj) * ofw * ofm_block);
    return 0;
}

/* Row-major C[b][M][N] = A[b][M][K] B[b][K][N] for each b < batch, one after the other in memory; shared out among
   threads. Returns 0, or 1 when LIBXSMM has no kernel. */
int xsmm_batch(const float *A, const float *B, float *C, long batch, long M, long N, long K)
{
    const float one = 1.0f, zero = 0.0f;
    const int m = (int)N, n = (int)M, k = (int)K, no_flags = 0;
    const libxsmm_smmfunction kernel = libxsmm_smmdispatch(m, n, k, &m, &k, &m, &one, &zero, &no_flags, NULL);
    if (!kernel)
        return 1;
#pragma omp parallel for
    for (long b = 0; b < batch; b++)
        kernel(B + b * K * N, A + b * M * K, C + b * M * N);
    return 0;
}
