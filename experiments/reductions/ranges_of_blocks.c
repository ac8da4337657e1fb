void ranges_of_blocks(const float x[N][32], float lo[N], float hi[N], float mean[N])
{
    for (int b = 0; b < N; b++) {
        float l = x[b][0], h = x[b][0], s = 0;
        for (int j = 0; j < 32; j++) {
            l = x[b][j] < l ? x[b][j] : l;
            h = x[b][j] > h ? x[b][j] : h;
            s += x[b][j];
        }
        lo[b] = l;
        hi[b] = h;
        mean[b] = s / 32;
    }
}
