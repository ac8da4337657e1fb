void knapsack(int best[CAP + 1], const int weight[ITEMS], const int value[ITEMS])
{
    for (int i = 0; i < ITEMS; i++)
        for (int w = CAP; w >= weight[i]; w--)
            if (best[w - weight[i]] + value[i] > best[w])
                best[w] = best[w - weight[i]] + value[i];
}
