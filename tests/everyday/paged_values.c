/* Values in pages, weighed by the scores of each sequence's query. */
void paged_values(const int table[B][P], const float scores[B][P][16], const float values[PAGES][16][D], float out[B][D])
{
    for (int b = 0; b < B; b++) {
        for (int d = 0; d < D; d++)
            out[b][d] = 0.0f;
        for (int p = 0; p < P; p++)
            for (int t = 0; t < 16; t++)
                for (int d = 0; d < D; d++)
                    out[b][d] += scores[b][p][t] * values[table[b][p]][t][d];
    }
}
