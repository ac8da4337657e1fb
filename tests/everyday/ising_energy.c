/* Energy of a lattice of spins that is closed to a torus. */
void ising_energy(int L, const signed char *s, long *energy)
{
    long e = 0;
    for (int i = 0; i < L; i++)
        for (int j = 0; j < L; j++)
            e -= s[i * L + j] * (s[((i + 1) % L) * L + j] + s[i * L + (j + 1) % L]);
    energy[0] = e;
}
