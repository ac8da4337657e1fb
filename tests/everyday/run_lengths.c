void run_lengths(const unsigned char x[M][N], unsigned char lengths[M][N], int runs[M])
{
    for (int row = 0; row < M; row++) {
        int i = 0, found = 0;
        while (i < N) {
            int length = 1;
            while (i + length < N && length < 255 && x[row][i + length] == x[row][i])
                length++;
            lengths[row][found++] = length;
            i += length;
        }
        runs[row] = found;
        for (; found < N; found++)
            lengths[row][found] = 0;
    }
}
