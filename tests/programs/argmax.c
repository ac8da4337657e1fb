/* Where every row has its largest element: integers that data decide. */
#ifndef M
#define M 60
#endif
#ifndef N
#define N 70
#endif

void argmax(const double A[restrict M][N], double most[restrict M], int where[restrict M])
{
#pragma scop
    for (int i = 0; i < M; i++) {
        most[i] = A[i][0];
        where[i] = 0;
        for (int j = 1; j < N; j++)
            if (A[i][j] > most[i]) {
                most[i] = A[i][j];
                where[i] = j;
            }
    }
#pragma endscop
}
