void rows_all_any(const float a[M][N], float lo, float hi, unsigned char all[M], unsigned char any[M])
{
    for (int i = 0; i < M; i++) {
        unsigned char x = 1, y = 0;
        for (int j = 0; j < N; j++) {
            x &= a[i][j] >= lo;
            y |= a[i][j] > hi;
        }
        all[i] = x;
        any[i] = y;
    }
}
