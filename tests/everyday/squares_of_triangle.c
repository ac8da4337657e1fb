void squares_of_triangle(const float a[N][N], float sum[1], float least[1], float most[1])
{
    float s = 0, lo = a[0][0], hi = a[0][0];
    for (int i = N - 1; i >= 0; i--)
        for (int j = i; j >= 0; j--) {
            float v = a[i][j];
            s += v * v;
            lo = v < lo ? v : lo;
            hi = v > hi ? v : hi;
        }
    sum[0] = s;
    least[0] = lo;
    most[0] = hi;
}
