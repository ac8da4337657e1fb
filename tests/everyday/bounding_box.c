void bounding_box(const float x[N], const float y[N], float box[4])
{
    float left = x[0], right = x[0], top = y[0], bottom = y[0];
    for (int i = 1; i < N; i++) {
        if (x[i] < left)
            left = x[i];
        if (x[i] > right)
            right = x[i];
        if (y[i] < top)
            top = y[i];
        if (y[i] > bottom)
            bottom = y[i];
    }
    box[0] = left;
    box[1] = right;
    box[2] = top;
    box[3] = bottom;
}
