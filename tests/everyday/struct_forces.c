struct vector {
    float x, y, z;
};

void struct_forces(int n, const struct vector *p, struct vector *f)
{
    for (int i = 0; i < n; i++) {
        struct vector sum = {0};
        for (int j = 0; j < n; j++) {
            struct vector d;
            d.x = p[j].x - p[i].x;
            d.y = p[j].y - p[i].y;
            d.z = p[j].z - p[i].z;
            float r = d.x * d.x + d.y * d.y + d.z * d.z + 0.01f;
            sum.x += d.x / r;
            sum.y += d.y / r;
            sum.z += d.z / r;
        }
        f[i] = sum;
    }
}
