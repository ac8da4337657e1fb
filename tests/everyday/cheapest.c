void cheapest(const float cost[N], const float weight[N], float base, int at[1], float price[1])
{
    int k = 0;
    float least = cost[0] * weight[0] + base;
    for (int i = 1; i < N; i++) {
        float c = cost[i] * weight[i] + base;
        if (c <= least) {
            least = c;
            k = i;
        }
    }
    at[0] = k;
    price[0] = least;
}
