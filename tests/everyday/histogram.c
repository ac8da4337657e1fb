void histogram(const int bin[N], int count[BINS])
{
    for (int i = 0; i < N; i++)
        count[bin[i]] += 1;
}
