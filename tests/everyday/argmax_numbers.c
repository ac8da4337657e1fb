void argmax_numbers(const double x[N], int where[1])
{
    double best = x[0];
    int at = 0;
    for (int i = 1; i < N; i++)
        if (x[i] > best || best != best) {
            best = x[i];
            at = i;
        }
    where[0] = at;
}
