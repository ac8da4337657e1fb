/* C += A * B around a kernel of LIBXSMM, call form. Debian: apt-get install libxsmm-dev, then

       cc -O3 -march=native -fPIC -c examples/xsmm_micro.c -o xsmm_micro.o
       polydl optimize examples/matmul_libxsmm.c --link xsmm_micro.o \
           --ldflags "-lxsmm -lxsmmnoblas -lm -lpthread -ldl" */
#ifndef M
#define M 1024
#endif
#ifndef N
#define N 1024
#endif
#ifndef K
#define K 1024
#endif
#define BLOCK 64

void xsmm_micro(const float *a, const float *b, float *c, int lda, int ldb, int ldc);

void matmul(float A[restrict M][K], float B[restrict K][N], float C[restrict M][N])
{
#pragma scop
    for (int it = 0; it < M / BLOCK; it++)
        for (int jt = 0; jt < N / BLOCK; jt++)
            for (int kt = 0; kt < K / BLOCK; kt++) {
#pragma polydl microkernel loops(                                             \
    for (int i = it * BLOCK; i < it * BLOCK + BLOCK; i++)                     \
        for (int j = jt * BLOCK; j < jt * BLOCK + BLOCK; j++)                 \
            for (int k = kt * BLOCK; k < kt * BLOCK + BLOCK; k++)             \
                C[i][j] += A[i][k] * B[k][j];)
                xsmm_micro(&A[it * BLOCK][kt * BLOCK], &B[kt * BLOCK][jt * BLOCK], &C[it * BLOCK][jt * BLOCK], K, N, N);
            }
#pragma endscop
}
