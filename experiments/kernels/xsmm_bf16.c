/* LIBXSMM's bf16 kernels with sums in float. It is column-major: a row-major C = A B is C' = B' A', so its m is our
   columns and its n our rows; its first operand, our B, lies in pairs of neighbours along K (VNNI). */
#include <libxsmm.h>

/* B[K][N] in blocks of `block` x `block`, one after the other, each [k / 2][n][2]; zeros behind the ends. */
void xsmm_bf16_pack(const libxsmm_bfloat16 *B, libxsmm_bfloat16 *packed, long N, long K, long block)
{
#pragma omp parallel for
    for (long j = 0; j < N; j += block)
        for (long k = 0; k < K; k += block)
            for (long kk = 0; kk < block; kk++)
                for (long jj = 0; jj < block; jj++)
                    packed[((j / block) * ((K + block - 1) / block) + k / block) * block * block
                           + (kk / 2 * block + jj) * 2 + kk % 2] =
                        k + kk < K && j + jj < N ? B[(k + kk) * N + j + jj] : 0;
}

static libxsmm_bsmmfunction dispatch(long m, long n, long k, long block, long K, long N, float beta)
{
    const int lda = (int)block, ldb = (int)K, ldc = (int)N, flags = LIBXSMM_GEMM_FLAG_VNNI_A;
    const float one = 1.0f;
    return libxsmm_bsmmdispatch((int)m, (int)n, (int)k, &lda, &ldb, &ldc, &one, &beta, &flags, NULL);
}

/* C[M][N] = A[M][K] * B, which is packed; blocks of C are shared out among threads. K is even. Returns 0, or 1 when
   LIBXSMM has no kernel. */
int xsmm_bf16_gemm(const libxsmm_bfloat16 *A, const libxsmm_bfloat16 *packed, float *C, long M, long N, long K, long block)
{
    const long m[2] = {M >= block ? block : 0, M % block}, n[2] = {N >= block ? block : 0, N % block};
    const long k[2] = {K >= block ? block : 0, K % block}, steps = (K + block - 1) / block;
    libxsmm_bsmmfunction kernels[2][2][2][2];
    for (int rm = 0; rm < 2; rm++)
        for (int rn = 0; rn < 2; rn++)
            for (int rk = 0; rk < 2; rk++)
                for (int more = 0; more < 2; more++)
                    if (m[rm] && n[rn] && k[rk]) {
                        kernels[rm][rn][rk][more] = dispatch(n[rn], m[rm], k[rk], block, K, N, (float)more);
                        if (!kernels[rm][rn][rk][more])
                            return 1;
                    }
#pragma omp parallel for collapse(2)
    for (long i = 0; i < M; i += block)
        for (long j = 0; j < N; j += block)
            for (long p = 0; p < K; p += block)
                kernels[i + block > M][j + block > N][p + block > K][p > 0](
                    packed + (j / block * steps + p / block) * block * block, A + i * K + p, C + i * N + j);
    return 0;
}
