/* Forces of pairs, each pair once (Newton's third law), with a cutoff. */
void lennard_jones(int n, const double pos[n][3], double force[n][3], double rc2)
{
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n; j++) {
            double dx = pos[i][0] - pos[j][0], dy = pos[i][1] - pos[j][1], dz = pos[i][2] - pos[j][2];
            double r2 = dx * dx + dy * dy + dz * dz + 1e-3;
            if (r2 < rc2) {
                double s6 = 1.0 / (r2 * r2 * r2);
                double ff = 48.0 * s6 * (s6 - 0.5) / r2;
                force[i][0] += ff * dx;
                force[i][1] += ff * dy;
                force[i][2] += ff * dz;
                force[j][0] -= ff * dx;
                force[j][1] -= ff * dy;
                force[j][2] -= ff * dz;
            }
        }
}
