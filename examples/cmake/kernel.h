/* Shared by kernel.c and main.c. */
#define N 192

void gemm(const float A[restrict N][N], const float B[restrict N][N], float C[restrict N][N]);
