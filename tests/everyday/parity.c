void parity(const unsigned char data[M][N], unsigned char row[M], unsigned char column[N])
{
    for (int i = 0; i < M; i++) {
        unsigned char p = 0;
        for (int j = 0; j < N; j++) {
            p ^= data[i][j];
            column[j] ^= data[i][j];
        }
        row[i] = p;
    }
}
