typedef struct {
    double x, y, z;
} vector;

typedef struct {
    vector position, velocity;
    double force[3];
    double mass;
} body;

struct simulation {
    int count;
    double step;
    body *bodies;
    double energy;
};

void struct_bodies(struct simulation *s)
{
    for (int i = 0; i < s->count; i++) {
        body *b = &s->bodies[i];
        b->velocity.x += s->step * b->force[0] / b->mass;
        b->position.x += s->step * b->velocity.x;
        for (int k = 0; k < 3; k++)
            b->force[k] = 0;
    }
    for (int i = 0; i < s->count; i++)
        s->energy += 0.5 * s->bodies[i].mass * s->bodies[i].velocity.x * s->bodies[i].velocity.x;
}
