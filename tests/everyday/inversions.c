void inversions(const int a[N], int out[1])
{
    int n = 0;
    for (int i = 0; i < N; i++)
        for (int j = i + 1; j < N; j++)
            if (a[i] > a[j])
                n++;
    out[0] = n;
}
