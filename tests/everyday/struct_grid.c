struct grid {
    int steps;
    float now[N][N], next[N][N];
    float largest;
};

void struct_grid(struct grid *g, float weight)
{
    for (int i = 1; i < N - 1; i++)
        for (int j = 1; j < N - 1; j++) {
            g->next[i][j] = weight * (g->now[i - 1][j] + g->now[i + 1][j] + g->now[i][j - 1] + g->now[i][j + 1]);
            if (g->next[i][j] > g->largest)
                g->largest = g->next[i][j];
        }
}
