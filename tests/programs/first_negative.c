/* Loops that data end, and a switch. */
#ifndef M
#define M 60
#endif
#ifndef N
#define N 70
#endif

void first_negative(const int A[restrict M][N], int at[restrict M], int kinds[restrict M][4], int total[restrict M])
{
    int j;
#pragma scop
    for (int i = 0; i < M; i++) {
        at[i] = -1;
        for (j = 0; j < N; j++) {
            if (A[i][j] >= 0)
                continue;
            at[i] = j;
            break;
        }
        for (int q = 0; q < 4; q++)
            kinds[i][q] = 0;
        for (int k = 0; k < N; k++)
            switch (A[i][k]) {
            case 0:
                kinds[i][0]++;
                break;
            case 1:
            case 2:
                kinds[i][1]++;
                break;
            case -1:
                kinds[i][2]++; /* falls through */
            default:
                kinds[i][3] += 2;
            }
    }
    for (int i = 0; i < M; i++) {
        total[i] = 0;
        for (int k = 0; k < N; k++)
            total[i] += A[i][k];
    }
#pragma endscop
}
