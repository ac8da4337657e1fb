/* The microkernel of matmul_libxsmm.c: a 64 x 64 x 64 block through LIBXSMM's just-in-time compiled kernel. LIBXSMM is
   column-major, so the operands change places: C^T += B^T * A^T. */
#include <libxsmm.h>

void xsmm_micro(const float *a, const float *b, float *c, int lda, int ldb, int ldc)
{
    static _Thread_local libxsmm_smmfunction kernel;
    if (!kernel) {
        const float one = 1;
        const int no_flags = LIBXSMM_GEMM_FLAG_NONE, no_prefetch = LIBXSMM_PREFETCH_NONE;
        kernel = libxsmm_smmdispatch(64, 64, 64, &ldb, &lda, &ldc, &one, &one, &no_flags, &no_prefetch);
    }
    kernel(b, a, c);
}
