#define Q 5

/* Streaming and relaxation of a D2Q5 lattice, for the cells that have every neighbour. */
void lattice_boltzmann(const float f[Q][H][W], float g[Q][H][W], float omega)
{
    for (int y = 1; y < H - 1; y++)
        for (int x = 1; x < W - 1; x++) {
            float f0 = f[0][y][x];
            float f1 = f[1][y][x - 1];
            float f2 = f[2][y - 1][x];
            float f3 = f[3][y][x + 1];
            float f4 = f[4][y + 1][x];
            float rho = f0 + f1 + f2 + f3 + f4;
            float ux = f1 - f3, uy = f2 - f4;
            g[0][y][x] = f0 + omega * (rho / 3.0f - f0);
            g[1][y][x] = f1 + omega * (rho / 6.0f + 0.5f * ux - f1);
            g[2][y][x] = f2 + omega * (rho / 6.0f + 0.5f * uy - f2);
            g[3][y][x] = f3 + omega * (rho / 6.0f - 0.5f * ux - f3);
            g[4][y][x] = f4 + omega * (rho / 6.0f - 0.5f * uy - f4);
        }
}
