/* One layer's gradients: of the weights, of the biases and of the inputs. */
#ifndef B
#define B 30
#endif
#ifndef NI
#define NI 32
#endif
#ifndef NO
#define NO 24
#endif

void backprop(const float x[restrict B][NI], const float w[restrict NI][NO], const float dy[restrict B][NO],
              float dx[restrict B][NI], float dw[restrict NI][NO], float db[restrict NO])
{
#pragma scop
    for (int j = 0; j < NO; j++) {
        db[j] = 0.0f;
        for (int n = 0; n < B; n++)
            db[j] += dy[n][j];
    }
    for (int i = 0; i < NI; i++)
        for (int j = 0; j < NO; j++) {
            dw[i][j] = 0.0f;
            for (int n = 0; n < B; n++)
                dw[i][j] += x[n][i] * dy[n][j];
        }
    for (int n = 0; n < B; n++)
        for (int i = 0; i < NI; i++) {
            dx[n][i] = 0.0f;
            for (int j = 0; j < NO; j++)
                dx[n][i] += dy[n][j] * w[i][j];
        }
#pragma endscop
}
