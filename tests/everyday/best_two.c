void best_two(const short x[N], short best[2])
{
    short first = -32768, second = -32768;
    for (int i = 0; i < N; i++) {
        if (x[i] > first) {
            second = first;
            first = x[i];
        } else if (x[i] > second)
            second = x[i];
    }
    best[0] = first;
    best[1] = second;
}
