static int alive(int n, const unsigned char *g, int i, int j)
{
    if (i < 0) i += n;
    if (i >= n) i -= n;
    if (j < 0) j += n;
    if (j >= n) j -= n;
    return g[i * n + j];
}

/* A generation on a board whose edges meet. */
void torus_life(int n, const unsigned char *g, unsigned char *h)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            int c = 0;
            for (int di = -1; di <= 1; di++)
                for (int dj = -1; dj <= 1; dj++)
                    if (di || dj) c += alive(n, g, i + di, j + dj);
            h[i * n + j] = c == 3 || (c == 2 && g[i * n + j]);
        }
}
