enum { RE, IM };

void complex_pairs(const float A[N][N][2], const float B[N][N][2], float C[N][N][2])
{
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            float re = 0.f, im = 0.f;
            for (int k = 0; k < N; k++) {
                re += A[i][k][RE] * B[k][j][RE] - A[i][k][IM] * B[k][j][IM];
                im += A[i][k][RE] * B[k][j][IM] + A[i][k][IM] * B[k][j][RE];
            }
            C[i][j][RE] = re;
            C[i][j][IM] = im;
        }
}
