#ifndef V
#define V 64
#endif

/* Floyd and Warshall, with hops counted beside. */
void shortest_paths(int dist[V][V], int hops[V][V])
{
    for (int k = 0; k < V; k++)
        for (int i = 0; i < V; i++)
            for (int j = 0; j < V; j++)
                if (dist[i][k] + dist[k][j] < dist[i][j]) {
                    dist[i][j] = dist[i][k] + dist[k][j];
                    hops[i][j] = hops[i][k] + hops[k][j];
                }
}
