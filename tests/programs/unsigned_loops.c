/* Unsigned and 64-bit loop variables. */
#include <stddef.h>
#include <stdint.h>

void unsigned_loops(size_t n, unsigned m, const double A[restrict n][m], double row[restrict n], double col[restrict m])
{
#pragma scop
#pragma polydl assume(n >= 1 && m >= 1)
    for (size_t i = 0; i < n; i++) {
        row[i] = 0;
        for (unsigned j = 0; j < m; j++)
            row[i] += A[i][j];
    }
    for (unsigned j = 0; j < m; j++)
        col[j] = A[n - 1][j];
    for (int64_t i = 0; i < (int64_t)n - 1; i++)
        for (unsigned j = 0; j < m; ++j)
            col[j] += A[i][j];
#pragma endscop
}
