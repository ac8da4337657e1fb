/* Scores of a query for keys that lie in pages, which a table of each sequence names. */
void paged_scores(const int table[B][P], const float q[B][D], const float keys[PAGES][16][D], float scores[B][P][16])
{
    for (int b = 0; b < B; b++)
        for (int p = 0; p < P; p++)
            for (int t = 0; t < 16; t++) {
                float sum = 0.0f;
                for (int d = 0; d < D; d++)
                    sum += q[b][d] * keys[table[b][p]][t][d];
                scores[b][p][t] = sum;
            }
}
