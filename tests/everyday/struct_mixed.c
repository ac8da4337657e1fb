struct particle {
    float x, y, z;
    int kind;
    float speed[3];
    double mass;
    unsigned char alive;
};

void struct_mixed(int n, struct particle *p, const float *restrict drag, double *restrict energy, float dt)
{
    for (int i = 0; i < n; i++) {
        struct particle *q = &p[i];
        if (!q->alive)
            continue;
        float slower = dt * drag[i];
        q->x += slower * q->speed[0];
        q->y += slower * q->speed[1];
        q->z += slower * q->speed[2];
        if (q->kind == 2)
            for (int k = 0; k < 3; k++)
                q->speed[k] *= 0.5f;
    }
    for (int i = 0; i < n; i++)
        *energy += 0.5 * p[i].mass * (p[i].speed[0] * p[i].speed[0] + p[i].speed[1] * p[i].speed[1]);
}
