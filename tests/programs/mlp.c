/* Two fully connected layers with ReLU between them. */
#ifndef B
#define B 20
#endif
#ifndef NI
#define NI 30
#endif
#ifndef NH
#define NH 40
#endif
#ifndef NO
#define NO 12
#endif

void mlp(const float x[restrict B][NI], const float w1[restrict NI][NH], const float b1[restrict NH],
         const float w2[restrict NH][NO], const float b2[restrict NO], float hidden[restrict B][NH], float y[restrict B][NO])
{
#pragma scop
#pragma polydl live_out(y)
    for (int n = 0; n < B; n++)
        for (int j = 0; j < NH; j++)
            hidden[n][j] = b1[j];
    for (int n = 0; n < B; n++)
        for (int i = 0; i < NI; i++)
            for (int j = 0; j < NH; j++)
                hidden[n][j] += x[n][i] * w1[i][j];
    for (int n = 0; n < B; n++)
        for (int j = 0; j < NH; j++)
            hidden[n][j] = hidden[n][j] < 0.0f ? 0.0f : hidden[n][j];
    for (int n = 0; n < B; n++)
        for (int j = 0; j < NO; j++) {
            y[n][j] = b2[j];
            for (int i = 0; i < NH; i++)
                y[n][j] += hidden[n][i] * w2[i][j];
        }
#pragma endscop
}
