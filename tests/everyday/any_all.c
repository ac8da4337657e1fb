void any_all(const int x[M][N], int any[M], int all[M])
{
    for (int i = 0; i < M; i++) {
        int some = 0, every = 1;
        for (int j = 0; j < N; j++) {
            if (x[i][j])
                some = 1;
            every = every && x[i][j];
        }
        any[i] = some;
        all[i] = every;
    }
}
