#define FOR(i, n) for (int i = 0; i < (n); ++i)

void loop_macros(const float A[M][K], const float B[K][N], float C[M][N])
{
    FOR(i, M)
        FOR(j, N) {
            float sum = 0;
            FOR(k, K) sum += A[i][k] * B[k][j];
            C[i][j] = sum;
        }
}
