typedef double real;

void syrk_lower(real alpha, real beta, real C[N][N], real A[N][K])
{
  int i, j, k;
  for (i = 0; i < N; i++)
    for (j = 0; j <= i; j++)
    {
      C[i][j] *= beta;
      for (k = 0; k < K; k++)
        C[i][j] += alpha * A[i][k] * A[j][k];
    }
}
