static double ez[NX][NY], hx[NX][NY], hy[NX][NY];

/* Transverse magnetic mode on Yee's grid, a hard source in a corner. */
void fdtd_tm(int steps)
{
    int t, i, j;
    for (t = 0; t < steps; t++) {
        for (i = 0; i < NX; i++)
            for (j = 0; j < NY - 1; j++)
                hx[i][j] -= 0.5 * (ez[i][j + 1] - ez[i][j]);
        for (i = 0; i < NX - 1; i++)
            for (j = 0; j < NY; j++)
                hy[i][j] += 0.5 * (ez[i + 1][j] - ez[i][j]);
        for (i = 1; i < NX; i++)
            for (j = 1; j < NY; j++)
                ez[i][j] += 0.5 * ((hy[i][j] - hy[i - 1][j]) - (hx[i][j] - hx[i][j - 1]));
        ez[1][1] = t;
    }
}
