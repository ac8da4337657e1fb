void furthest_pair(const float x[N], const float y[N], float out[1])
{
    float far = 0;
    for (int i = 1; i < N; i++)
        for (int j = 0; j < i; j++) {
            float dx = x[i] - x[j], dy = y[i] - y[j];
            float d = dx * dx + dy * dy;
            far = d > far ? d : far;
        }
    out[0] = far;
}
