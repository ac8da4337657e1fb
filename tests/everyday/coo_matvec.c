/* A sparse matrix as a list of elements times a vector. */
void coo_matvec(const int row[E], const int col[E], const float val[E], const float x[N], float y[M])
{
    for (int i = 0; i < M; i++)
        y[i] = 0.0f;
    for (int e = 0; e < E; e++)
        y[row[e]] += val[e] * x[col[e]];
}
