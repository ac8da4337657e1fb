/* C += A * B around a microkernel, loop form: the loops stand in the code, so that it is plain C for other compilers,
   and the pragma holds the call that computes what they do. */
#ifndef M
#define M 256
#endif
#ifndef N
#define N 256
#endif
#ifndef K
#define K 256
#endif
#define MB 32
#define NB 32
#define KB 32

void gemm_micro(int m, int n, int k, const float *restrict a, int lda, const float *restrict b, int ldb,
                float *restrict c, int ldc);

void matmul(float A[restrict M][K], float B[restrict K][N], float C[restrict M][N])
{
#pragma scop
    for (int it = 0; it < M / MB; it++)
        for (int jt = 0; jt < N / NB; jt++)
            for (int kt = 0; kt < K / KB; kt++) {
#pragma polydl microkernel call(gemm_micro(MB, NB, KB, &A[it * MB][kt * KB], K, &B[kt * KB][jt * NB], N, \
                                           &C[it * MB][jt * NB], N))
                for (int i = it * MB; i < it * MB + MB; i++)
                    for (int j = jt * NB; j < jt * NB + NB; j++)
                        for (int k = kt * KB; k < kt * KB + KB; k++)
                            C[i][j] += A[i][k] * B[k][j];
            }
#pragma endscop
}
