void last_peak(const short x[N], int where[1], short peak[1])
{
    short best = x[0];
    int at = 0;
    for (int i = 1; i < N; i++)
        if (x[i] >= best) {
            best = x[i];
            at = i;
        }
    where[0] = at;
    peak[0] = best;
}
