struct particle {
    float x, y, vx, vy;
};

void particles_struct(struct particle p[N], float dt)
{
    for (int i = 0; i < N; i++) {
        p[i].x += dt * p[i].vx;
        p[i].y += dt * p[i].vy;
    }
}
